"""What is measured for the page on tables runs, and stands on the page."""

import pytest
from bench.engine_cases import write_groups, write_rows
from bench.engine_table import GROUPED, PLAIN, measure
from bench.pages import DOCS


@pytest.mark.parametrize("name", PLAIN | GROUPED)
def test_work_is_measured_beside_an_aggregate(name):
    path = write_rows(2_000) if name in PLAIN else write_groups(2_000, 5)
    cells = [each.strip() for each in measure(name, path).strip("|").split("|")]
    assert cells[0] == name
    assert [each.rpartition(" ")[2] for each in cells[2:]] == ["s", "s", "MB"]


def test_the_page_has_a_row_of_each():
    page = (DOCS / "engines.md").read_text()
    table = page.partition("<!-- table: python -m bench.engine_table -->")[2].partition("\n\n")[2].partition("\n\n")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines()[2:-1]]
    assert rows == [*PLAIN, *GROUPED]
