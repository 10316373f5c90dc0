"""Sphinx: ``make docs``."""

project = "ml-toolkit"
copyright = "the ml-toolkit authors"  # noqa: A001  Sphinx's name
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "changelog"]
html_theme = "alabaster"
html_theme_options = {"description": "One answer per row, on the compute you name."}
default_role = "any"
nitpicky = True
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
#: Private or foreign names that signatures mention.
nitpick_ignore_regex = [
    ("py:.*", r"(pathlib|collections|importlib|pyarrow|pluggy|enum|attr)\..*"),
    ("py:.*", r"(Path|Mapping|Sequence|Iterable|Iterator|Callable|Json|TextIO)"),
    ("py:.*", r"ml_toolkit_core\.(wire|plan|records|backends)\..*"),
    ("py:.*", r".*\.(T|Self|ProgressOption)"),
]
