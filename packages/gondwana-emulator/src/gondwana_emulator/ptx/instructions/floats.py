"""Arithmetic of floating-point numbers by IEEE 754: only the text fuses operations."""

from __future__ import annotations

from gondwana_emulator.ptx.instructions.table import Statement, operation
from gondwana_emulator.ptx.writer import native

ROUNDINGS = {"rn": 1, "rz": 0, "rm": 3, "rp": 2}
"""Rounding modes by their numbers in LLVM."""

_SMALLEST = {"f32": "0x3810000000000000", "f64": "0x0010000000000000"}
"""The smallest normal numbers, as LLVM writes them."""


def flush(statement: Statement, kind: str, value: str) -> str:
    """Return a number, or zero of its sign if it is subnormal; integers stay."""
    if kind not in _SMALLEST:
        return value
    code, real = statement.code, native(kind)
    size = code.call(f"llvm.fabs.{kind}", real, (real, value))
    zero = code.call(f"llvm.copysign.{kind}", real, (real, "0.0"), (real, value))
    return code.select(code.value(f"fcmp olt {real} {size}, {_SMALLEST[kind]}"), real, zero, value)


def saturate(statement: Statement, kind: str, value: str) -> str:
    """Return a number limited to 0 to 1; NaN becomes 0."""
    code, real = statement.code, native(kind)
    positive = code.select(code.value(f"fcmp ogt {real} {value}, 0.0"), real, value, "0.0")
    return code.select(code.value(f"fcmp ogt {real} {positive}, 1.0"), real, "1.0", positive)


class Flags:
    """The modifiers of a floating-point operation."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.rounding = statement.choice(tuple(ROUNDINGS), "rn")
        self.flush = statement.flag("ftz")
        self.saturate = statement.flag("sat")
        self.kind = statement.kind()

    def get(self, number: int) -> str:
        """Return an operand."""
        value = self.statement.get(number, self.kind)
        return flush(self.statement, self.kind, value) if self.flush else value

    def put(self, value: str) -> None:
        """Write the result."""
        if self.flush:
            value = flush(self.statement, self.kind, value)
        if self.saturate:
            value = saturate(self.statement, self.kind, value)
        self.statement.put(self.kind, value)


def rounded(statement: Statement, name: str, rounding: str, result: str, *operands: tuple[str, str]) -> str:
    """Return the value of one of LLVM's operations in a rounding mode other than to the nearest.

    A separate function sets the mode of the processor, and restores it.
    """
    suffix = ".".join(dict.fromkeys(_short(kind) for kind in (result, *(kind for kind, _ in operands))))
    intrinsic = f"llvm.experimental.constrained.{name}.{suffix}"
    kinds = ", ".join(kind for kind, _ in operands)
    given = ", ".join(f"{kind} %a{place}" for place, (kind, _) in enumerate(operands))
    function = f"{name}.{rounding}.{suffix}"
    code = statement.code
    code.helper(intrinsic, f"declare {result} @{intrinsic}({kinds}, metadata, metadata) strictfp")
    code.helper("llvm.set.rounding", "declare void @llvm.set.rounding(i32)")
    code.helper(
        function,
        f"""define internal {result} @{function}({given}) strictfp noinline {{
  call void @llvm.set.rounding(i32 {ROUNDINGS[rounding]}) strictfp
  %r = call {result} @{intrinsic}({given}, metadata !"round.dynamic", metadata !"fpexcept.strict") strictfp
  call void @llvm.set.rounding(i32 1) strictfp
  ret {result} %r
}}""",
    )
    values = ", ".join(f"{kind} {value}" for kind, value in operands)
    return code.value(f"call {result} @{function}({values})")


def _short(kind: str) -> str:
    return {"float": "f32", "double": "f64"}.get(kind, kind)


def _arithmetic(flags: Flags, name: str, operands: list[str]) -> str:
    real = native(flags.kind)
    if flags.rounding != "rn":
        return rounded(flags.statement, name, flags.rounding, real, *((real, value) for value in operands))
    if name in ("fma", "sqrt"):
        return flags.statement.code.call(f"llvm.{name}.{flags.kind}", real, *((real, value) for value in operands))
    return flags.statement.code.value(f"{name} {real} {', '.join(operands)}")


@operation("add", "sub", "mul", "div", on="float")
def basic(statement: Statement) -> None:
    """The four operations; quotients that may be approximate are exact here."""
    statement.flag("approx", "full")
    flags = Flags(statement)
    flags.put(_arithmetic(flags, f"f{statement.opcode}", [flags.get(1), flags.get(2)]))


@operation("fma", "mad", on="float")
def fused(statement: Statement) -> None:
    """Products and sums with one rounding."""
    flags = Flags(statement)
    flags.put(_arithmetic(flags, "fma", [flags.get(number) for number in (1, 2, 3)]))


@operation("sqrt", "rcp", "rsqrt", on="float")
def roots(statement: Statement) -> None:
    """Square roots and reciprocals; approximations in double have 32 significant bits, as on devices."""
    rough = statement.flag("approx")
    flags = Flags(statement)
    real, value = native(flags.kind), flags.get(1)
    if statement.opcode != "rcp":
        value = _arithmetic(flags, "sqrt", [value])
    if statement.opcode != "sqrt":
        value = _arithmetic(flags, "fdiv", ["1.0", value])
    if rough and flags.kind == "f64":
        code = statement.code
        whole = code.convert("bitcast", real, value, "i64")
        value = code.convert("bitcast", "i64", code.value(f"and i64 {whole}, -4294967296"), real)
    flags.put(value)


_FUNCTIONS = {"ex2": "llvm.exp2.f32", "lg2": "llvm.log2.f32", "sin": "llvm.sin.f32", "cos": "llvm.cos.f32"}


@operation("ex2", "lg2", "sin", "cos", "tanh", on="float")
def function(statement: Statement) -> None:
    """Functions that devices approximate; here they are exact to about the last bit."""
    statement.flag("approx")
    flags = Flags(statement)
    name = _FUNCTIONS.get(statement.opcode, "tanhf")
    flags.put(statement.code.call(name, "float", ("float", flags.get(1))))


@operation("min", "max", on="float")
def extreme(statement: Statement) -> None:
    """The smaller or the larger; of a number and a NaN the number; -0 is smaller than +0."""
    strict = statement.flag("NaN")
    flags = Flags(statement)
    real = native(flags.kind)
    name = f"llvm.{statement.opcode}imum{'' if strict else 'num'}.{flags.kind}"
    flags.put(statement.code.call(name, real, (real, flags.get(1)), (real, flags.get(2))))


@operation("abs", "neg", on="float")
def sign(statement: Statement) -> None:
    """The absolute value and the negative."""
    flags = Flags(statement)
    real, value = native(flags.kind), flags.get(1)
    if statement.opcode == "abs":
        flags.put(statement.code.call(f"llvm.fabs.{flags.kind}", real, (real, value)))
    else:
        flags.put(statement.code.value(f"fneg {real} {value}"))


@operation("copysign", on="float")
def copy_sign(statement: Statement) -> None:
    """The sign of the first and the magnitude of the second."""
    kind = statement.kind()
    real = native(kind)
    sign_of, size = statement.get(1, kind), statement.get(2, kind)
    statement.put(kind, statement.code.call(f"llvm.copysign.{kind}", real, (real, size), (real, sign_of)))


_CLASSES = {
    "finite": 0b0111111000, "infinite": 0b1000000100, "number": 0b1111111100, "notanumber": 0b0000000011,
    "normal": 0b0101101000, "subnormal": 0b0010010000,
}  # fmt: skip
"""Sets of LLVM's classes; to PTX, zeros are normal."""


@operation("testp", on="float")
def test(statement: Statement) -> None:
    """Return whether a number is of a kind."""
    wanted = _CLASSES[statement.choice(tuple(_CLASSES))]
    kind = statement.kind()
    name = f"llvm.is.fpclass.{kind}"
    code = statement.code
    code.helper(name, f"declare i1 @{name}({native(kind)}, i32 immarg)")
    statement.put("pred", code.value(f"call i1 @{name}({native(kind)} {statement.get(1, kind)}, i32 {wanted})"))
