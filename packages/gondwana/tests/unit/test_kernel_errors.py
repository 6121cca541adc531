"""What does not compile says why: the kernel, the line, the reason, in one paragraph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError, UsageError

BOX = gw.RectDomain((0, 0), (4, 4))
A = gw.Array.zeros(BOX)
HERE = Path(__file__).name


def plain(x):
    return x + 1


class Opaque:
    """Something that compiled code cannot know."""


SETTINGS = Opaque()


@gw.jit
def helper(a, p):
    return a[p + gw.Z]


def unknown_name(p, a):
    a[p] = no_such_name + 1.0  # noqa: F821  (what is tested)


def undecorated_helper(p, a):
    a[p] = plain(a[p])


def wrong_dimension(p, a):
    a[p] = p[0]


def no_such_axis(p, a):
    a[p] = p[2]


def offset_beyond_the_axes(p, a):
    a[p] = helper(a, p)


def unknown_attribute(p, a):
    a[p] = a[p].magnitude


def unlike_loop(p, a):
    for step in (gw.X, gw.Y):
        a[p + step] = 0.0


def opaque_global(p, a):
    a[p] = SETTINGS.rate


def text_in_numbers(p, a):
    a[p] = "three"


def unlike_branches(p, a):
    v = "one" if p[0] > 1 else 1.0
    a[p] = v


def point_times_point(p, a):
    a[p * p] = 1.0


def point_in_numpy(p, v):
    v[p] = 1.0


def imports(p, a):
    import math

    a[p] = math.pi


def sets_a_global(p, a):
    global SETTINGS
    SETTINGS = p[0]


def uses_with(p, a):
    with a:
        a[p] = 1.0


def asks_for_its_sum(p, a):
    a[p] = a.sum()


LINE = gw.Array.zeros(gw.RectDomain(0, 4))
CASES: list[tuple[Any, Any, str, str]] = [
    (unknown_name, A, "no_such_name", "not defined"),
    (undecorated_helper, A, "plain", "@gw.jit"),
    (wrong_dimension, LINE, "1 axes", "2 axes"),
    (offset_beyond_the_axes, A, "no axis 2", "def helper"),
    (unknown_attribute, A, "magnitude", "float64"),
    (unlike_loop, A, "Offset", "write the terms out"),
    (opaque_global, A, "SETTINGS", "pass it as an argument"),
    (text_in_numbers, A, "unicode_type|Literal", "float64"),
    (unlike_branches, A, "v", "float64"),
    (point_times_point, A, "mul", "Point(2d)"),
    (point_in_numpy, np.zeros((4, 4)), r"v\[p\[0\], p\[1\]\]", "gw.Array"),
    (imports, A, "`import` does not work", "import math"),
    (sets_a_global, A, "cannot set globals", "SETTINGS = p[0]"),
    (asks_for_its_sum, A, "sum", "array(float64, 2d)"),
]


@pytest.mark.parametrize(("function", "array", "said", "also"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_a_kernel_that_does_not_compile_says_why(function: Any, array: gw.Array, said: str, also: str) -> None:
    with pytest.raises(KernelError, match=said) as caught:
        gw.foreach(function)(BOX, array)
    text = str(caught.value)
    assert also in text
    assert function.__name__ in text
    assert HERE in text
    assert f"line {line_of(function)}" in text
    lines = text.splitlines()
    assert len(lines) <= 14, text
    assert "" not in lines
    assert not any(word in text for word in ("During:", "slot", "Overload", "\x1b"))


def line_of(function: Any) -> int:
    """The first line of the body, which holds the mistake."""
    code = function.__code__
    lines = sorted({line for *_, line in code.co_lines() if line})
    return lines[1]


def test_with() -> None:
    with pytest.raises(KernelError, match="`with` does not work in compiled code") as caught:
        gw.foreach(uses_with)(BOX, A)
    assert "def uses_with" in str(caught.value)
    assert HERE in str(caught.value)


@gw.jit
def waits_as_in_python(signal):
    signal.wait()


@gw.jit
def meets_as_in_python(team):
    team.barrier()


def test_what_compiled_code_writes_instead() -> None:
    with pytest.raises(KernelError, match=r"write gw\.wait\(signal, n, channel\)"):
        waits_as_in_python(gw.Signal(gw.world))
    with pytest.raises(KernelError, match=r"write gw\.barrier\(team\)"):
        meets_as_in_python(gw.world)


@gw.jit
def returned(a):
    return a


def test_messages_call_types_by_plain_names() -> None:
    pointer = gw.Segment(gw.world, 8).pointer(dtype=float)
    read_only = gw.Array(np.broadcast_to(1.0, (4, 4)))
    for value, name in (
        (A, "array(float64, 2d)"),
        (read_only, "read-only array(float64, 2d)"),
        (gw.Point(1, 2), "Point(2d)"),
        (gw.X - 2 * gw.Y, "Offset(X - 2Y)"),
        (gw.Signal(gw.world), "Signal"),
        (gw.world, "Team"),
        (pointer, "GlobalPtr(float64)"),
        (BOX, "RectDomain"),
        ((A, gw.Point(0)), "Tuple(array(float64, 2d), Point(1d))"),
    ):
        with pytest.raises(KernelError, match="a compiled function hands a number") as caught:
            returned(value)
        assert f"returned returns {name}: " in str(caught.value)


def test_a_kernel_called_without_its_domain() -> None:
    kernel = gw.foreach(wrong_dimension)
    for call in (lambda: kernel(A), lambda: kernel(), lambda: kernel(A, LINE), lambda: gw.reduce(wrong_dimension)(A)):
        with pytest.raises(UsageError, match=r"write wrong_dimension\(domain, a\)"):
            call()


def test_the_traceback_has_the_users_frames() -> None:
    for call in (
        lambda: gw.foreach(unknown_attribute)(BOX, A),
        lambda: gw.reduce(unknown_attribute)(BOX, A),
        lambda: gw.jit(undecorated_helper)(gw.Point(0, 0), A),
        lambda: gw.parallel(gw.jit(undecorated_helper), A),
    ):
        with pytest.raises(KernelError) as caught:
            call()
        files = [Path(entry.path).parts for entry in caught.traceback]
        assert sum("gondwana" in parts and "tests" not in parts for parts in files) <= 3, caught.traceback
        assert caught.value.__cause__ is None


def refuse(p, a, limit):
    if a[p] > limit:
        raise ValueError("too large")


@pytest.mark.parametrize("threads", [1, 4])
def test_an_exception_says_at_which_point(threads: int) -> None:
    box = gw.RectDomain((-40, 0, 3), (40, 20, 13))
    a = gw.Array.zeros(box)
    a[-5, 17, 9] = 2.0
    before = gw.threads()
    gw.set_threads(threads)
    try:
        gw.foreach(refuse)(box, a, 3.0)
        for kernel in (gw.foreach(refuse), gw.reduce(refuse_or_return)):
            with pytest.raises(ValueError, match=r"^too large \(raised in refuse\w* at Point\(-5, 17, 9\)\)$"):
                kernel(box, a, 1.0)
        with pytest.raises(ValueError, match=r"at Point\(-?\d+, \d+, \d+\)"):
            gw.foreach(refuse)(box, a, -1.0)
    finally:
        gw.set_threads(before)


def refuse_or_return(p, a, limit):
    if a[p] > limit:
        raise ValueError("too large")
    return a[p]


def test_a_coordinate_that_a_point_does_not_have() -> None:
    with pytest.raises(IndexError, match=r"a point of 2 axes has no axis 2.*no_such_axis"):
        gw.foreach(no_such_axis)(BOX, A)


def test_arguments_that_no_compiled_code_takes() -> None:
    kernel = gw.foreach(wrong_dimension)
    for value in (Opaque(), [1.0], {"a": 1}, {1}, object):
        with pytest.raises(KernelError, match="compiled code cannot take"):
            kernel(BOX, value)
    for value in (2**64, -(2**63) - 1, -(2**70)):
        with pytest.raises(KernelError, match="64 bits"):
            kernel(BOX, value)
    for value in (np.float16(1), np.longdouble(1), np.datetime64("2020-01-01"), np.zeros(3, ">f8"), np.zeros(3, "U2")):
        with pytest.raises(KernelError, match="elements of dtype"):
            kernel(BOX, value)


def test_a_reduction_must_return_a_number() -> None:
    for source, match in (("return a[p], a[p]", "returns"), ("a[p] = 1.0", "returns none"), ("return 1j", "complex")):
        names: dict[str, Any] = {}
        exec(f"def f(p, a):\n    {source}", names)
        with pytest.raises(KernelError, match=match):
            gw.reduce(names["f"])(BOX, A)


def returns_a_number(p, a):
    a[p] = 1.0
    return 3


def returns_at_some_points(p, a):
    if p[0] > 1:
        return a[p]
    a[p] = 1.0
    return None


def returns_nothing(p, a):
    if p[0] > 1:
        return
    a[p] = 1.0


@pytest.mark.parametrize("function", [returns_a_number, returns_at_some_points])
def test_what_a_kernel_returns_is_not_lost_in_silence(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KernelError, match=rf"{function.__name__} returns a value of type .*int|float.*gw\.reduce"):
        gw.foreach(function)(BOX, A)
    monkeypatch.setenv("GONDWANA_INTERPRET", "1")
    with pytest.raises(KernelError, match=rf"{function.__name__} returns a value of type (int|float), "):
        gw.foreach(function)(BOX, A)


def test_a_kernel_may_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    for interpreted in ("0", "1"):
        monkeypatch.setenv("GONDWANA_INTERPRET", interpreted)
        a = gw.Array.zeros(BOX)
        gw.foreach(returns_nothing)(BOX, a)
        assert a.numpy().sum() == 8.0


def test_a_kernel_does_not_yield() -> None:
    def generator(p, a):
        yield a[p]

    async def coroutine(p, a):
        a[p] = 1.0

    for decorate in (gw.foreach, gw.reduce):
        for function in (generator, coroutine):
            with pytest.raises(KernelError, match=f"{function.__name__} has a yield or is async"):
                decorate(function)


def test_a_failed_compilation_leaves_nothing_behind() -> None:
    kernel = gw.foreach(text_in_numbers)
    for _ in range(2):
        with pytest.raises(KernelError):
            kernel(BOX, A)
    gw.foreach(wrong_dimension)(BOX, A)
    assert A[3, 0] == 3.0
