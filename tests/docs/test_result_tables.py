"""Tables of the documentation have the figures of the recorded results; the gallery has all examples."""

from __future__ import annotations

import pytest

from support import result_tables


@pytest.mark.parametrize(("page", "heading"), result_tables.TABLES)
def test_the_figures_are_those_of_the_recorded_results(page: str, heading: str) -> None:
    expected = list(result_tables.TABLES[page, heading]())
    assert result_tables.shown(page, heading) == expected, "run: cd tests; python -m support.result_tables"
