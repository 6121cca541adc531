"""The loops around a kernel, or a fused pair, as the compiler sees them: plain nests over dense rows. Imports Numba.

A sweep gives each thread a contiguous range of rows (a row is a run along the innermost loop), the same for every
launch on the same domain. `step(total, p, args)` runs the kernel at one point and folds its value into `total`.

For a pair, the rows and columns of a box are divided into tiles; three planes of one fit the cache of a core. A thread
walks along the planes of a tile: it runs the first kernel on a plane, one point wider on each side than the tile, and
the second one on the plane before, alternating by rows, so that loads and stores of memory are spread evenly. So the
first kernel runs again on the points that two tiles share, and its results stay in the cache. If there are many planes,
threads divide them too.

A kernel whose planes are in the cache alternates between computing and waiting for memory, unless the data it needs
next are already requested: processors look ahead less far than one row of a tile. So rows of a pair prefetch elements
of the next plane while they compute.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.types.footprint import Footprint
from gondwana.compiler.types.points import INT, PointType, coordinates, make
from gondwana.compiler.types.views import ViewType, address
from gondwana.kernels.cpu.accumulate import Folding
from gondwana.kernels.cpu.exact_native import BLOCK
from gondwana.kernels.cpu.launch import LEAD, TILING
from gondwana.kernels.variant import Order

NBOXES, BOXES = 24, 32

_ATTRIBUTE = '"prefer-vector-width"="512"'

_LEAST = 16
"""The fewest planes of a thread; with fewer, the two that it computes besides cost too much."""

_SCRATCH, _BYTES, _ACROSS, _BESIDE, _WIDTH, _PLANE = range(TILING, TILING + 48, 8)
"""Offsets of the words of a tiling, after the boxes: see `launch.TiledBox`."""

AHEAD = 1024
"""Distance in elements at which the elements of a row are prefetched before they are added exactly."""
LINE = 64
_LINES = 4
"""Cache lines of a row that are prefetched at once."""

_LOCALITY, _DATA = 2, 1
"""Values of LLVM for: into the second level of the cache; data, not instructions."""


def sweep(ndim: int, row: Any, load: Any, start: Any, store: Any) -> Any:
    """The function `(block, thread, threads)` that runs one thread's share of a launch.

    Args:
        ndim: axes of the domain, 1 to 4.
        row: function that runs the kernel along a row; see `plain_row`.
        load: function from the block to the arguments of the kernel.
        start: `start(block, thread)`, the value to fold into.
        store: `store(block, thread, total)`, called once at the end.
    """
    nests = {1: _sweep_1d, 2: _sweep_2d, 3: _sweep_3d, 4: _sweep_4d}
    return nests[ndim](box_reader(ndim), row, load, start, store)


def sweep_runs(ndim: int, row: Any, load: Any, start: Any, store: Any) -> Any:
    """The function `(block, thread, threads)` that runs one thread's share of a launch over runs: see `Runs.table`.

    Args:
        ndim: axes of the domain, 1 to 4.
        row: function that runs the kernel along a row; see `plain_row`.
        load: function from the block to the arguments of the kernel.
        start: `start(block, thread)`, the value to fold into.
        store: `store(block, thread, total)`, called once at the end.
    """
    read_run = row_reader(ndim + 1)

    def run(block: int, thread: int, threads: int) -> int:
        args = load(block)
        total = start(block, thread)
        low, high = 0, load_word(block + NBOXES)
        first, last = _share(read_run(block, high)[0], thread, threads)
        while high - low > 1:  # the run that has the first point of this thread
            middle = (low + high) // 2
            if read_run(block, middle)[0] <= first:
                low = middle
            else:
                high = middle
        while first < last:
            here = read_run(block, low)
            end = min(read_run(block, low + 1)[0], last)
            total = row(total, here[1:-1], here[-1], first - here[0], end - here[0], 1, args)
            first = end
            low += 1
        store(block, thread, total)
        return 0

    return run


def sweep_pair(loads: tuple[Any, Any], places: tuple[Any, Any], rows: tuple[Any, Any], start: Any, store: Any) -> Any:
    """Return the function `(block, thread, threads)` that runs one thread's share of a launch.

    Args:
        loads: for each kernel, function from the block to its arguments.
        places: for each kernel, function that puts the rings of the thread into them; see `intermediates.placer`.
        rows: for each kernel, function that runs it along a row; see `prefetching_row`.
        start: `start(block, thread)`, the value to fold those of the second kernel into.
        store: `store(block, thread, total)`, called once at the end.
    """
    read_box = box_reader(3)
    load_first, load_second = loads
    place_first, place_second = places
    first_row, second_row = rows

    def run(block: int, thread: int, threads: int) -> int:
        prefer_widest_vectors()
        ahead, behind = load_first(block), load_second(block)
        i0, j0, k0, n0, n1, n2, _, _, _ = read_box(block, 0)
        interior = read_box(block, 1)
        tiling = load_word(block + BOXES)
        across, beside = load_word(tiling + _ACROSS), load_word(tiling + _BESIDE)
        width, plane = load_word(tiling + _WIDTH), load_word(tiling + _PLANE)
        scratch = load_word(tiling + _SCRATCH) + thread * load_word(tiling + _BYTES)
        tiles = across * beside
        total = start(block, thread)
        slabs = max(1, min(threads, n0 // _LEAST))
        units = slabs * tiles
        for unit in range(units * thread // threads, units * (thread + 1) // threads):
            slab, tile = unit // tiles, unit % tiles
            a, b = tile // beside, tile % beside
            j, j_end = j0 + n1 * a // across, j0 + n1 * (a + 1) // across
            k, k_end = k0 + n2 * b // beside, k0 + n2 * (b + 1) // beside
            i, i_end = i0 + n0 * slab // slabs, i0 + n0 * (slab + 1) // slabs
            origin = (j - 1) * width + k - LEAD
            for m in range(i - 1, i_end + 1):
                args = place_first(ahead, scratch, plane, width, origin, m - i + 1)
                others = place_second(behind, scratch, plane, width, origin, m - i)
                for row in range(j - 1, j_end + 1):
                    first_row(0, m, row, k - 1, k_end - k + 2, args, interior)
                    if m > i and j <= row < j_end:
                        total = second_row(total, m - 1, row, k, k_end - k, others, interior)
        store(block, thread, total)
        return 0

    return run


def plain_row(point: Any, step: Any, *, dense: bool) -> Any:
    """Return `row(total, head, first, begin, end, stride, args)`: it runs a kernel along points and folds its values.

    Args:
        point: function from loop coordinates to the point.
        step: `step(total, p, args)`.
        dense: whether the stride is one.
    """

    @inlined
    def row(total: Any, head: Any, first: int, begin: int, end: int, stride: int, args: Any) -> Any:
        apart = 1 if dense else stride
        for i in range(begin, end):
            total = step(total, point((*head, first + apart * i)), args)
        return total

    return row


def prefetching_row(point: Any, fold: Folding, ask: Any, line: int) -> Any:
    """Return a function that runs a dense row like `plain_row`, and prefetches elements that later rows need. Local.

    Args:
        point: function from loop coordinates to the point.
        fold: folding of the values.
        ask: `ask(args, p)`; see `asker`.
        line: number of elements in a cache line.
    """
    if fold.settle is not None:
        return exact_row(point, fold, ask, line, dense=True)
    chunk, step = _LINES * line, fold.step

    @inlined
    def row(total: Any, head: Any, first: int, begin: int, end: int, stride: int, args: Any) -> Any:
        whole = end - (end - begin) % chunk
        for at in range(begin, whole, chunk):
            for i in range(at, at + chunk, line):
                ask(args, point((*head, first + i)))
            for i in range(at, at + chunk):
                total = step(total, point((*head, first + i)), args)
        for i in range(whole, end):
            total = step(total, point((*head, first + i)), args)
        return total

    return row


def exact_row(point: Any, fold: Folding, ask: Any, line: int, *, dense: bool) -> Any:
    """Return a function that runs a row like `plain_row`, in blocks whose values are added together. Local.

    Args:
        point: function from loop coordinates to the point.
        fold: folding of the values.
        ask: `ask(args, p)`; see `asker`.
        line: number of elements in a cache line.
        dense: whether the stride is one.
    """
    step, settle = fold.step, fold.settle

    @inlined
    def take(total: Any, head: Any, first: int, begin: int, end: int, apart: int, args: Any) -> Any:
        for i in range(begin, end, line):
            ask(args, point((*head, first + apart * i)))
        for i in range(begin, end):
            total = step(total, point((*head, first + apart * i)), args)
        return settle(total)

    @inlined
    def row(total: Any, head: Any, first: int, begin: int, end: int, stride: int, args: Any) -> Any:
        apart = 1 if dense else stride
        whole = end - (end - begin) % BLOCK
        for at in range(begin, whole, BLOCK):
            total = take(total, head, first, at, at + BLOCK, apart, args)
        return take(total, head, first, whole, end, apart, args)

    return row


def split(outside: Any, inside: Any) -> Any:
    """Return a function that runs a row of a pair, with another kernel in the interior. Local.

    It is `(total, plane, row, first, count, args, interior)`, the last one a box as `box_reader` gives it.

    Args:
        outside: runs a kernel along a row; see `prefetching_row`.
        inside: runs the other kernel; None without one.
    """
    if inside is None:

        @inlined
        def whole(total: Any, plane: int, row: int, first: int, count: int, args: Any, interior: Any) -> Any:
            return outside(total, (plane, row), first, 0, count, 1, args)

        return whole

    @inlined
    def run(total: Any, plane: int, row: int, first: int, count: int, args: Any, interior: Any) -> Any:
        i0, j0, k0, n0, n1, n2, _, _, _ = interior
        begin = end = 0
        if i0 <= plane < i0 + n0 and j0 <= row < j0 + n1:
            begin = min(max(k0 - first, 0), count)
            end = max(begin, min(k0 + n2 - first, count))
        total = outside(total, (plane, row), first, 0, begin, 1, args)
        total = inside(total, (plane, row), first, begin, end, 1, args)
        return outside(total, (plane, row), first, end, count, 1, args)

    return run


def box_reader(ndim: int) -> Any:
    """A compiled function that returns the integers of box number `b` of an argument block, three an axis."""
    return row_reader(3 * ndim)


def row_reader(count: int) -> Any:
    """A compiled function that returns the integers of a row of the table of an argument block, by its number."""
    result = types.UniTuple(types.int64, count)

    @intrinsic
    def read_row(typingctx: Any, block: Any, number: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(64)
            slot = builder.inttoptr(builder.add(args[0], ir.Constant(word, BOXES)), word.as_pointer())
            first = builder.add(builder.load(slot), builder.mul(args[1], ir.Constant(word, 8 * count)))
            row = builder.inttoptr(first, word.as_pointer())
            values = [builder.load(builder.gep(row, [ir.Constant(word, i)])) for i in range(count)]
            return context.make_tuple(builder, result, values)

        return result(types.int64, types.int64), codegen

    return read_row


def point_maker(ndim: int, order: Order) -> Any:
    """A compiled function that returns the index point at loop coordinates, from the outermost loop inwards."""
    kind = PointType(ndim, (0,) * ndim)

    @intrinsic
    def make_point(typingctx: Any, loops: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = [builder.extract_value(args[0], i) for i in range(ndim)]
            return make(context, builder, kind, values if order == "C" else values[::-1])

        return kind(loops), codegen

    return make_point


@inlined
def _share(count: int, thread: int, threads: int) -> tuple[int, int]:
    """The part of a thread, from and to; like what follows, compiled once and not for each kernel."""
    return count * thread // threads, count * (thread + 1) // threads


@inlined
def _planes(first: int, last: int, rows: int) -> tuple[int, int]:
    """The planes of some rows that are numbered over all planes, from and to."""
    return first // rows, (last + rows - 1) // rows


@inlined
def _rows(first: int, last: int, rows: int) -> tuple[int, int]:
    """The rows of a plane, from and to, of those from `first` to `last` counted from its start."""
    return max(first, 0), min(last, rows)


def _sweep_1d(read_box: Any, row: Any, load: Any, start: Any, store: Any) -> Any:
    def run(block: int, thread: int, threads: int) -> int:
        args = load(block)
        total = start(block, thread)
        for b in range(load_word(block + NBOXES)):
            i0, n0, s0 = read_box(block, b)
            total = row(total, (), i0, *_share(n0, thread, threads), s0, args)
        store(block, thread, total)
        return 0

    return run


def _sweep_2d(read_box: Any, row: Any, load: Any, start: Any, store: Any) -> Any:
    def run(block: int, thread: int, threads: int) -> int:
        args = load(block)
        total = start(block, thread)
        for b in range(load_word(block + NBOXES)):
            i0, j0, n0, n1, s0, s1 = read_box(block, b)
            for i in range(*_share(n0, thread, threads)):
                total = row(total, (i0 + s0 * i,), j0, 0, n1, s1, args)
        store(block, thread, total)
        return 0

    return run


def _sweep_3d(read_box: Any, row: Any, load: Any, start: Any, store: Any) -> Any:
    def run(block: int, thread: int, threads: int) -> int:
        args = load(block)
        total = start(block, thread)
        for b in range(load_word(block + NBOXES)):
            i0, j0, k0, n0, n1, n2, s0, s1, s2 = read_box(block, b)
            first, last = _share(n0 * n1, thread, threads)
            for i in range(*_planes(first, last, n1)):
                for j in range(*_rows(first - i * n1, last - i * n1, n1)):
                    total = row(total, (i0 + s0 * i, j0 + s1 * j), k0, 0, n2, s2, args)
        store(block, thread, total)
        return 0

    return run


def _sweep_4d(read_box: Any, row: Any, load: Any, start: Any, store: Any) -> Any:
    def run(block: int, thread: int, threads: int) -> int:
        args = load(block)
        total = start(block, thread)
        for b in range(load_word(block + NBOXES)):
            i0, j0, k0, l0, n0, n1, n2, n3, s0, s1, s2, s3 = read_box(block, b)
            first, last = _share(n0 * n1, thread, threads)
            for i in range(*_planes(first, last, n1)):
                for j in range(*_rows(first - i * n1, last - i * n1, n1)):
                    for k in range(n2):
                        total = row(total, (i0 + s0 * i, j0 + s1 * j, k0 + s2 * k), l0, 0, n3, s3, args)
        store(block, thread, total)
        return 0

    return run


def widest(run: Any) -> Any:
    """Return a sweep whose loops have vectors as wide as the processor's. Local."""
    swept = inlined(run)

    def wide(block: int, thread: int, threads: int) -> int:
        prefer_widest_vectors()
        return swept(block, thread, threads)  # type: ignore[no-any-return]

    return wide


@intrinsic
def prefer_widest_vectors(typingctx: Any) -> Any:
    """Let the loops of the function that calls this have vectors as wide as the processor's.

    LLVM uses half of that on processors whose clock falls with wide vectors. Wide ones still pay off if loops find
    their data in the cache.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        attributes = builder.function.attributes
        set.add(attributes, _ATTRIBUTE)  # llvmlite's own `add` knows no attributes of targets
        attributes.add("noinline")  # inlined elsewhere, the loops would lose it
        return context.get_dummy_value()

    return types.none(), codegen


def asker(axis: int, footprints: dict[int, Footprint], ahead: int | None = None) -> Any:
    """A compiled function that prefetches array elements that a kernel will need: `ask(args, p)`. Local.

    Args:
        axis: axis of the points.
        footprints: footprints of the kernel's arrays, by slot.
        ahead: distance along the axis; None: elements that the kernel first touches one step after a point.
    """

    @intrinsic
    def ask(typingctx: Any, args: Any, p: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            for view, value in _views(builder, args, values[0]):
                footprint = footprints.get(view.slots[0])
                if footprint is None or len(footprint.hi) != p.ndim:
                    continue
                at = coordinates(builder, p, values[1])
                distance = footprint.hi[axis] + 1 if ahead is None else ahead
                at[axis] = builder.add(at[axis], ir.Constant(INT, distance))
                _prefetch(builder, _address(context, builder, view, value, at), write=footprint.written)
            return context.get_dummy_value()

        return types.none(args, p), codegen

    return ask


def _address(context: Any, builder: Any, view: ViewType, value: Any, at: list[Any]) -> Any:
    index = PointType(len(at), None)
    return address(context, builder, view, value, index, make(context, builder, index, at))


def _views(builder: Any, kind: Any, value: Any) -> list[tuple[ViewType, Any]]:
    """The arrays in an argument, in tuples too."""
    if isinstance(kind, ViewType):
        return [(kind, value)]
    if not isinstance(kind, types.BaseTuple):
        return []
    members = ((member, builder.extract_value(value, i)) for i, member in enumerate(kind.types))
    return [found for member, part in members for found in _views(builder, member, part)]


def _prefetch(builder: Any, pointer: Any, *, write: bool) -> None:
    word, byte = ir.IntType(32), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    hints = [ir.Constant(word, number) for number in (int(write), _LOCALITY, _DATA)]
    builder.call(function, [builder.bitcast(pointer, byte), *hints])
