"""What is found in LLVM IR, assembly and PTX; the code of kernels and functions; the command that shows it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.cli import main
from gondwana.errors import KernelError, UsageError
from gondwana.kernels.inspection import assembly, llvm_ir
from gondwana.kernels.inspection.loops import innermost, main_loop
from gondwana.testing.gpu import emulated_gpu
from gondwana_apps.grayscott.kernels import Noise, Rates, react_and_diffuse
from gondwana_apps.heat.kernels import total

BOX = gw.RectDomain((0, 0, 0), (130, 130, 130))
RATES = Rates(0.02, 0.048, 0.2, 0.1, 1.0)
HOPPER = (9, 0)
KERNELS = "gondwana_apps.grayscott.kernels"
TOTAL = "gondwana_apps.heat.kernels:total"

LLVM = """
define i64 @axpy(i64 %n) #0 {
  %0 = icmp sgt i64 %n, 0
  br i1 %0, label %vector.body, label %end

vector.body:                                      ; preds = %0, %vector.body
  %index = phi i64 [ %index.next, %vector.body ], [ 0, %0 ]
  %lane = phi i64 [ %lane.next, %vector.body ], [ 0, %0 ]
  %a = load <4 x float>, ptr %5, align 4, !alias.scope !2
  %b = tail call <4 x float> @llvm.masked.gather.v4f32.v4p0(<4 x ptr> %6, i32 4, <4 x i1> %m, <4 x float> poison)
  %c = tail call <4 x float> @llvm.fmuladd.v4f32(<4 x float> %a, <4 x float> %x, <4 x float> %b)
  %d = fadd fast <4 x float> %c, %a
  store <4 x float> %d, ptr %7, align 4
  store <4 x float> %d, ptr %8, align 4
  %index.next = add nuw i64 %index, 8
  %lane.next = add nuw nsw i64 %lane, 64
  %9 = icmp eq i64 %index.next, %n.vec
  br i1 %9, label %"rest of it", label %vector.body, !llvm.loop !33

"rest of it":                                     ; preds = %vector.body, %"rest of it"
  %i = phi i64 [ %n, %vector.body ], [ %i.next, %"rest of it" ]
  %v = load volatile i64, ptr %10, align 8
  %s = call double @sin(double %t)
  %i.next = add nsw i64 %i, -1
  %11 = icmp sgt i64 %i, 1
  br i1 %11, label %"rest of it", label %end

end:                                              ; preds = %"rest of it", %0
  ret i64 0
}

declare double @sin(double)
"""

X86 = """
axpy:
\tpushq\t%rbx
.LBB0_1:
\tmovq\t8(%rsp), %rax
.LBB0_2:
\tvmovupd\t(%rax,%rcx,8), %ymm14
\tvaddpd\t-96(%rsp), %ymm14, %ymm3
\tvmovupd\t%ymm3, (%rdi,%rcx,8)
\tjb\t.LBB0_2
\tjne\t.LBB0_1
\tretq
"""

ARM = """
axpy:
.LBB0_2:
\tldr\tq0, [x8], #16
\tfadd\tv1.2d, v0.2d, v7.2d
\tstr\tx9, [sp, #8]
\tb.ne\t.LBB0_2
\tret
"""

PTX = """
.visible .entry axpy(
\t.param .u64 axpy_param_0
)
{
\t.reg .pred \t%p<3>;
\t.reg .f64 \t%fd<7>;
\t@%p1 bra \t$L__BB0_3;
$L__BB0_1:
\tld.global.nc.f64 \t%fd1, [%rd1];
\t@%p2 bra \t$L__BB0_2;
\tld.global.v2.f32 \t{%f1, %f2}, [%rd2+8];
\tfma.rn.f64 \t%fd3, %fd1, %fd2, %fd2;
$L__BB0_2:
\tst.global.f64 \t[%rd3], %fd3;
\t@!%p3 bra \t$L__BB0_1;
\tbra.uni \t$L__BB0_3;
$L__BB0_3:
\tret;
}
"""


@gw.jit
def dot(a: Any, b: Any) -> float:
    """The sum of products, in order."""
    found = 0.0
    for i in range(a.size):
        found += a[i] * b[i]
    return found


@gw.jit(reassociate=True)
def dot_in_any_order(a: Any, b: Any) -> float:
    """The sum of products, in any order."""
    found = 0.0
    for i in range(a.size):
        found += a[i] * b[i]
    return found


def fields(dtype: str = "float64") -> list[gw.Array]:
    """The four fields of a Gray-Scott run."""
    return [gw.Array.zeros(BOX, dtype, order="F") for _ in range(4)]


@functools.cache
def step(dtype: str = "float64", *, noise: bool = False) -> gw.Inspection:
    """The code of one Gray-Scott step."""
    return gw.inspect(react_and_diffuse, BOX.shrink(1), *fields(dtype), RATES, Noise(0.1, 42, 1) if noise else None)


def test_innermost_loops_of_a_graph() -> None:
    # Two loops beside each other in one around both, of which the first has two ways back; a block that none reaches.
    graph = {
        "entry": ["outer"],
        "outer": ["a"],
        "a": ["a2", "a3"],
        "a2": ["a"],
        "a3": ["a", "b"],
        "b": ["b", "last"],
        "last": ["outer", "end"],
        "end": [],
        "lost": ["a"],
    }
    assert innermost(graph) == [frozenset({"a", "a2", "a3"}), frozenset({"b"})]
    assert innermost({"entry": []}) == []


def test_a_way_into_the_middle_makes_no_loop() -> None:
    assert innermost({"entry": ["a", "b"], "a": ["b"], "b": ["a"]}) == []


def test_loops_in_llvm_ir() -> None:
    vector, scalar = llvm_ir.loops(LLVM)
    assert (vector.points, vector.width) == (8, 4)
    assert (vector.loads, vector.loaded) == (8, 32)
    assert (vector.stores, vector.stored) == (8, 32)
    assert (vector.flops, vector.calls) == (12, ())
    assert (scalar.points, scalar.width, scalar.loads, scalar.loaded, scalar.stores) == (1, 1, 1, 8, 0)
    assert scalar.calls == ("sin",)
    assert main_loop([scalar, vector]) is vector
    assert llvm_ir.loops("define void @nothing() {\n  ret void\n}\n") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [(X86, (2, "ymm", 1, 4)), (ARM, (3, "v", 1, 4)), ("f:\n\tret\n", None)],
    ids=["x86", "arm", ""],
)
def test_registers_in_assembly(text: str, expected: tuple[Any, ...] | None) -> None:
    assert assembly.registers(text) == expected


def test_loops_in_ptx() -> None:
    (loop,) = assembly.ptx_loops(PTX)
    assert (loop.loads, loop.loaded, loop.stores, loop.stored, loop.flops) == (3, 16, 1, 8, 2)
    assert (loop.points, loop.width) == (0, 2)
    assert assembly.ptx_registers(PTX) == {"pred": 3, "f64": 7}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_gray_scott_step_loads_and_stores_as_its_stencil_says(dtype: str) -> None:
    """As many as in listing 4 of W. Godoy et al., SC-W 2023."""
    code, itemsize = step(dtype), np.dtype(dtype).itemsize
    loop = code.loop
    assert loop is not None
    assert loop.vectorised
    assert loop.points % loop.width == 0
    assert (loop.loads, loop.stores) == (14 * loop.points, 2 * loop.points)
    assert (loop.loaded, loop.stored) == (14 * loop.points * itemsize, 2 * loop.points * itemsize)
    assert loop.calls == ()
    assert code.traffic is not None
    assert (code.traffic.read, code.traffic.written) == (2 * itemsize, 2 * itemsize)
    assert code.registers is not None
    assert code.registers.vector >= 5


def test_the_texts_are_those_of_the_kernel() -> None:
    code = step()
    assert f"fmul <{code.loop.width if code.loop else 0} x double>" in code.llvm
    assert "lsr.iv" not in code.llvm  # what making machine code does to it
    assert "ret" in code.asm
    assert code.ptx == ""
    summary = str(code)
    assert "loads 14 (112 bytes), stores 2 (16 bytes)" in summary
    assert "memory: 32 bytes a point, 16 read and 16 written, each array once; 48 with" in summary


def test_nothing_runs_and_nothing_is_kept() -> None:
    arrays = fields()
    before = gw.compilation()
    gw.inspect(total, BOX, arrays[0])
    gw.inspect(react_and_diffuse, BOX.shrink(1), *arrays, rates=RATES)
    spent = gw.compilation() - before
    assert (spent.compiled, spent.loaded) == (0, 0)
    assert not any(np.asarray(array).any() for array in arrays)


def test_arrays_that_overlap_are_compiled_as_such() -> None:
    a = gw.Array.zeros(BOX)

    @gw.foreach
    def smooth(p: gw.Point, a: Any, b: Any) -> None:
        a[p] = b[p - gw.X] + b[p + gw.X]

    apart = gw.inspect(smooth, BOX.shrink(1), a, gw.Array.zeros(BOX))
    assert ".scope" in apart.llvm
    assert ".scope" not in gw.inspect(smooth, BOX.shrink(1), a, a).llvm


def test_accesses_that_depend_on_data_have_no_known_traffic() -> None:
    line = gw.RectDomain(0, 1000)
    a, b, index = gw.Array.zeros(line), gw.Array.zeros(line), gw.Array.zeros(line, "int64")

    @gw.foreach
    def gather(p: gw.Point, a: Any, b: Any, index: Any) -> None:
        a[p] = b[gw.Point(index[p])]

    code = gw.inspect(gather, line, a, b, index)
    assert code.traffic is None
    assert "memory:" not in str(code)


def test_functions_of_jit() -> None:
    x = np.zeros(100)
    in_order, any_order = gw.inspect(dot, x, x), gw.inspect(dot_in_any_order, x, x)
    assert in_order.loop is not None
    assert any_order.loop is not None
    assert not in_order.loop.vectorised
    assert "not vectorised" in str(in_order)
    assert any_order.loop.vectorised
    assert any_order.loop.loads == 2 * any_order.loop.points

    @gw.jit
    def product(x: float, y: float) -> float:
        return x * y

    assert "no loop that uses memory" in str(gw.inspect(product, 1.0, y=2.0))


def test_code_for_a_gpu_that_is_not_there() -> None:
    code = gw.inspect(react_and_diffuse, BOX.shrink(1), *fields(), RATES, capability=HOPPER)
    assert code.target == "sm_90"
    assert ".target sm_90" in code.ptx
    assert code.llvm == code.asm == ""
    loop = code.loop
    assert loop is not None
    assert loop.stores == 2 * loop.points
    assert loop.loads < 14 * loop.points  # what the next plane needs again stays in registers
    assert code.declared["f64"] > 0
    assert code.resources is not None
    assert code.resources.local == 0
    assert code.traffic == step().traffic
    if code.sass:  # with NVIDIA's disassembler
        assert 20 < code.instructions < 100
        assert "STG.E.64" in code.sass
        assert "instructions of the loop" in str(code)
    assert "registers in PTX" in str(code)


def test_code_for_the_gpu_where_the_arrays_lie() -> None:
    with emulated_gpu():
        box = gw.RectDomain((0, 0), (8, 8))
        a = gw.zeros(box, kind=gw.cuda(0))

        @gw.foreach
        def double(p: gw.Point, a: Any) -> None:
            a[p] = 2 * a[p]

        code = gw.inspect(double, a.owned, a)
        a.close()
    assert code.target == "sm_90"
    assert code.resources is not None
    assert f"of a thread: {code.resources.registers} registers" in str(code)


def test_what_cannot_be_inspected() -> None:
    x = np.zeros(4)
    with pytest.raises(UsageError, match=r"gw\.inspect got <function .*>: give what gw\.foreach, gw\.reduce"):
        gw.inspect(fields, 1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"dot is a function of gw\.jit, of which there is code for the host only"):
        gw.inspect(dot, x, x, capability=HOPPER)
    with pytest.raises(UsageError, match="total runs over a RectDomain or a Domain, not over nothing"):
        gw.inspect(total)
    with pytest.raises(UsageError, match="total runs over a RectDomain or a Domain, not over array"):
        gw.inspect(total, x, fields()[0])
    with pytest.raises(KernelError):
        gw.inspect(dot, "no array", x)


Command = Callable[..., tuple[object, str, str]]


@pytest.fixture
def gondwana(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `gondwana inspect` in this process and an empty folder; returns the status and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["gondwana", "inspect", *words])
        with pytest.raises(SystemExit) as leaving:
            main.main()
        printed = capsys.readouterr()
        return leaving.value.code, printed.out, printed.err

    return run


def test_the_command_shows_the_kernel_of_an_application(gondwana: Command) -> None:
    Path("settings.json").write_text("{}")
    status, out, err = gondwana("gray-scott", "settings.json", "--set", "noise=0", "--set", "precision=Float32")
    assert (status, err) == (0, "")
    assert out.startswith("react_and_diffuse for ")
    assert "loads 14 (56 bytes), stores 2 (8 bytes)" in out


def test_the_command_shows_kernels_of_modules(gondwana: Command) -> None:
    arrays, rates = ["float64[:,:,:]"] * 4, "Rates(float, 0.048, float, float, float)"
    status, out, _ = gondwana("--order", "F", f"{KERNELS}:react_and_diffuse", *arrays, rates)
    assert status == 0
    assert out == f"{step()}\n"


def test_the_command_shows_functions_of_files(gondwana: Command) -> None:
    Path("numpy.py").write_text("""
import gondwana as gw

@gw.jit
def scale(a, b, factor):
    for i in range(a.size):
        a[i] = factor * b[i]
""")
    status, out, _ = gondwana("numpy.py:scale", "float64[:]", "np.float32[:]", "float64")
    assert status == 0
    assert "loads 1 (4 bytes), stores 1 (8 bytes), floating-point operations 1" in out
    status, out, _ = gondwana("--asm", "numpy.py:scale", "float64[:]", "float64[:]", "float")
    assert status == 0
    assert "ret" in out
    assert "memory" not in out


def test_the_command_prints_whole_texts(gondwana: Command) -> None:
    words = (TOTAL, "float64[:]")
    assert "define " in gondwana("--llvm", *words)[1]
    pytest.importorskip("numba_cuda")
    assert ".target sm_80" in gondwana("--ptx", "--capability", "8.0", *words)[1]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "Missing argument 'KERNEL'"),
        (["nothing"], "nothing: legal are MODULE:NAME, FILE.py:NAME and gray-scott"),
        (["no.module:f"], "no.module: there is no such module"),
        (["gondwana.no_module:f"], "gondwana.no_module: there is no module gondwana.no_module"),
        (["none.py:f"], "none.py: there is no such file"),
        ([f"{KERNELS}:f"], f"{KERNELS} has no f; its kernels and functions are laplacian, inside, draw, react"),
        ([f"{KERNELS}:Rates", "float"], "gw.inspect got <class 'gondwana_apps.grayscott.kernels.Rates'>"),
        ([TOTAL], "total: missing a required argument: 'T'"),
        ([TOTAL, "float"], "total runs over a domain, which is that of its first array"),
        ([TOTAL, "float64[:]", "int"], "total: too many positional arguments; give a type for each"),
        ([TOTAL, "float64[3]"], "'float64[3]' is no type of an argument: legal are float64[:,:]"),
        ([TOTAL, "float64[:,:,:,:,:]"], "an array of 5 axes: legal are 1 to 4"),
        ([TOTAL, "f(("], "'f((' is no type of an argument"),
        ([TOTAL, "__import__('os')"], "the module has no named tuple __import__"),
        ([TOTAL, "Rates(float)"], "Rates(float): Rates has 4 members, not 1"),
        (["--order", "K", TOTAL], "--order K: legal are C"),
        (["--capability", "nine", TOTAL], "--capability nine: legal is a compute capability such as"),
        (["--ptx", "--asm", TOTAL], "--llvm and --asm show code for the host: leave out --ptx"),
        (["hpcg"], "hpcg does not name one kernel: give MODULE:NAME"),
        (["gray-scott"], "gray-scott: the following arguments are required: SETTINGS"),
        (["gray-scott", "none.json"], "none.json"),
    ],
    ids=lambda value: " ".join(value)[-50:] if isinstance(value, list) else "",
)
def test_wrong_input_is_one_line_and_status_2(gondwana: Command, words: list[str], part: str) -> None:
    status, out, err = gondwana(*words)
    assert (status, out) == (2, "")
    assert err.startswith("gondwana: error: ")
    assert err.count("\n") == 1
    assert part in err
