"""The catalog that three-part names are looked up in."""

import os

from ml_toolkit_core import discovery
from ml_toolkit_core.hookspecs import Catalog


def catalog() -> Catalog:
    """Import the catalog that ``ML_TOOLKIT_CATALOG`` names, by default ``local``.

    Raises:
        RequestError: When there is none of this name.
        PluginError: When it cannot be imported.
    """
    name = os.environ.get("ML_TOOLKIT_CATALOG") or "local"
    found: Catalog = discovery.load(discovery.CATALOGS, name)
    return found
