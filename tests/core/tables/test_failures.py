import re
from pathlib import Path

import pytest

from ml_toolkit_core.tables.failures import attempts_of
from ml_toolkit_core.tables.parts import RowFault

PAGE = Path(__file__).parents[3] / "docs" / "input-output.rst"


def test_the_page_lists_every_kind():
    section = PAGE.read_text(encoding="utf-8").partition("Rows that fail\n")[2]
    listed = re.findall(r"``(\w+)``", "".join(re.findall(r"\* - (``.*)", section)))

    assert sorted(listed) == sorted(RowFault)


@pytest.mark.parametrize("kind", RowFault)
def test_a_row_was_tried_when_the_model_was_asked(kind):
    assert attempts_of(f"{kind}: a sentence") == (kind is RowFault.ENGINE_ERROR)
