"""What an interactive session and a notebook show of objects."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import gondwana as gw
from gondwana.arrays.drawing import drawn
from gondwana.notebook import nbytes_text

HERE = Path(__file__).name


@gw.foreach
def fill(p, u):
    u[p] = 1.0


@gw.reduce
def value(p, u):
    return u[p]


@gw.jit
def increased(x):
    return x + 1


def line_of(decorated):
    return f"({HERE}:{decorated.py_func.__code__.co_firstlineno})"


def test_small_arrays_show_their_values():
    assert repr(gw.Array([[1, 2], [3, 4]])) == "Array(int64, RectDomain((0, 0), (2, 2)), [[1, 2], [3, 4]])"
    assert repr(gw.Array.zeros(gw.RectDomain(0, 9))) == "Array(float64, RectDomain(0, 9))"
    assert repr(gw.Array.zeros(gw.RectDomain(0, 0))) == "Array(float64, RectDomain(0, 0))"


def test_functions_say_where_they_are_and_what_they_are_compiled_for():
    assert repr(fill) == f"<gw.foreach fill {line_of(fill)}, not compiled yet>"
    assert repr(value) == f"<gw.reduce value {line_of(value)}, not compiled yet>"
    assert repr(increased) == f"<gw.jit increased {line_of(increased)}, not compiled yet>"
    increased(2)
    assert repr(increased) == f"<gw.jit increased {line_of(increased)}, compiled for (int64)>"
    increased(2.0)
    assert repr(increased) == f"<gw.jit increased {line_of(increased)}, compiled for (float64) and 1 more>"


def test_signals_show_their_counters_while_they_are_there():
    signal = gw.Signal(gw.world, 10)
    signal.add(0, 2, 1)
    assert re.fullmatch(r"<Signal \d+ of world, arrived here: 0, 2, 0, 0, 0, 0, 0, 0, \.\.\.>", repr(signal))
    signal.segment.close()
    assert re.fullmatch(r"<Signal \d+ of world, closed>", repr(signal))


def test_plans_promises_and_futures():
    u = gw.zeros((4, 4), ghost=1, periodic=True)
    ghosts = u.exchange()
    assert repr(ghosts) == "<Plan of exchange: 0 bytes to other ranks in a round, under way>"
    ghosts.wait()
    assert repr(ghosts) == "<Plan of exchange: 0 bytes to other ranks in a round>"
    promise = gw.Promise()
    assert repr(promise) == "<Promise of <Future, under way>>"
    promise.set_result(3)
    assert repr(promise) == "<Promise of <Future: 3>>"


def test_a_domain_of_a_list_says_what_makes_one():
    with pytest.raises(TypeError, match=r"^Domain\(\[\(0, 1\)\]\): a Domain is made by Domain.of\(\*boxes\)"):
        gw.Domain([(0, 1)])


class Elements(HTMLParser):
    """The elements of a page, each of which must be closed in its turn."""

    def __init__(self, page):
        super().__init__()
        self.open, self.found, self.text = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def count(self, tag):
        return sum(name == tag for name, _ in self.found)


def test_notebooks_show_arrays_layouts_and_teams():
    u = gw.zeros((8, 6), ghost=1, boundary={"x": gw.Dirichlet(1.0), "y": gw.periodic})
    page = Elements(u._repr_html_())
    assert {"GlobalArray", "float64", "RectDomain((0, 0), (8, 6))", "48, 384 B without ghosts", "(1, 1)"} <= set(
        page.text
    )
    assert page.count("svg") == 1
    assert Elements(gw.world._repr_html_()).text[:4] == ["Team", "name", "world", "rank"]
    small = Elements(gw.Array([[1.0, 2.0]])._repr_html_())
    assert small.text[-1] == "[[1. 2.]]"
    assert "16 B, private" in small.text
    hostile = Elements(gw.Array(np.array([("<b>", 1)], [("name", "U3"), ("n", "i8")])["name"])._repr_html_())
    assert "<b>" in hostile.text[-1]  # as text
    assert hostile.count("b") == 0


@pytest.mark.parametrize(
    ("shape", "grid", "boxes", "texts"),
    [
        ((10,), (3,), 3, ["0", "1", "2"]),
        ((8, 8), (3, 2), 6, ["0", "1", "2", "3", "4", "5"]),
        ((8, 8, 8), (2, 2, 2), 4, ["0 +1", "2 +1", "4 +1", "6 +1"]),
        ((8, 8, 8), (1, 2, 3), 6, ["0", "1", "2", "3", "4", "5"]),
        ((2,), (4,), 4, ["0", "1"]),  # two blocks have no cells, and no room for their numbers
    ],
)
def test_drawings_have_a_box_for_each_block(shape, grid, boxes, texts):
    page = Elements(drawn(gw.Layout.divide(shape, math.prod(grid), grid=grid)))
    assert page.count("rect") == boxes
    assert [text for text in page.text if text[0].isdigit()] == texts


def test_the_block_of_a_rank_is_shaded_and_has_its_ghosts_around_it():
    layout = gw.Layout.divide((300, 200), 6, ghost=4)
    boxes = [about for tag, about in Elements(drawn(layout, 4)).found if tag == "rect"]
    assert [number for number, box in enumerate(boxes) if box.get("fill-opacity") == "0.2"] == [4]
    dashed = [box for box in boxes if "stroke-dasharray" in box]
    assert len(boxes) == 7
    assert float(dashed[0]["width"]) > float(boxes[4]["width"])
    assert drawn(gw.Layout.divide(1000, 500)) == ""


def test_bytes_are_written_for_people():
    assert [nbytes_text(n) for n in (0, 1, 1023, 1024, 1536, 5 << 30)] == [
        *("0 B", "1 B", "1023 B", "1 KiB", "1.5 KiB", "5 GiB")
    ]
