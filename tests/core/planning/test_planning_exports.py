"""The public surface of the package."""

import types

from ml_toolkit_core import planning


def test_all_is_the_public_surface() -> None:
    public = {
        name
        for name, value in vars(planning).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }

    assert sorted(public) == planning.__all__
