"""Every engine answers every question alike, and the page of answers names them all."""

import pytest

from tests.engines.backends import MISSING, NAMES, open_backends
from tests.engines.conformance import CASES, PAGE

_MARKS = dict.fromkeys(["spark", "spark connect"], pytest.mark.spark)


@pytest.fixture(scope="module")
def ways():
    with open_backends() as found:
        yield found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", [pytest.param(name, marks=_MARKS.get(name, ())) for name in NAMES])
@pytest.mark.filterwarnings(r"ignore:fetch_\w+\(\) is deprecated:DeprecationWarning")  # of DuckDB, called by Ibis
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_every_engine_answers_alike(ways, backend, case):
    if MISSING.get(backend):
        pytest.skip(MISSING[backend])
    CASES[case](ways(backend))


def test_the_page_names_every_backend_and_every_case():
    """Written by `make conformance`, by somebody who had all engines."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    [head] = [line for line in lines if line.startswith("| | ")]
    assert head == "| | " + " | ".join(NAMES) + " |"
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.startswith("| ") and line != head}
    assert rows.keys() == CASES.keys()
    assert all(row.count("| yes ") == len(NAMES) for row in rows.values())
