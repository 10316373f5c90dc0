"""The catalog ``local``: a folder of this machine as ``catalog/schema/table``."""

from pathlib import Path
from typing import Final

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.names import ThreePartName
from ml_toolkit_core.paths import warehouse
from ml_toolkit_core.values import ModelKind, ModelLocation, TableFormat, TableLocation

#: The entry point's name, and what a plan says.
CATALOG: Final = "local"


def table(name: ThreePartName, access: str) -> TableLocation:
    """Return where a Delta table of the warehouse lies.

    Args:
        name: The table.
        access: ``read`` or ``write``; a table that is written need not be there.

    Raises:
        RequestError: When a table that is to be read is not there.
    """
    folder = _folder(name)
    if access == "read" and not folder.is_dir():
        raise RequestError(
            f"{str(name)!r} is not in the local warehouse {str(warehouse())!r}: there "
            f"is no folder {'/'.join(name.parts)!r}. Set ML_TOOLKIT_WAREHOUSE to "
            "another warehouse, or pass a path"
        )
    return TableLocation(
        name=str(name), uri=str(folder), format=TableFormat.DELTA, catalog=CATALOG
    )


def model(name: ThreePartName) -> ModelLocation:
    """Return where a model folder of the warehouse lies.

    Raises:
        RequestError: When it is not there.
    """
    folder = _folder(name)
    if not folder.is_dir():
        raise RequestError(
            f"{str(name)!r} is not in the local warehouse {str(warehouse())!r}: there "
            f"is no model folder {'/'.join(name.parts)!r}. Set ML_TOOLKIT_WAREHOUSE, "
            "or pass the model's own folder"
        )
    return ModelLocation(
        name=str(name), uri=str(folder), kind=ModelKind.FOLDER, catalog=CATALOG
    )


def _folder(name: ThreePartName) -> Path:
    for part in name.parts:
        if part in {".", ".."} or "/" in part or "\0" in part:
            raise RequestError(
                f"{part!r} in {str(name)!r} cannot be a folder of the local warehouse"
            )
    return warehouse().joinpath(*name.parts)
