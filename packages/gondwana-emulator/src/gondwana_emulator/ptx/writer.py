"""LLVM's language, written line by line."""

from __future__ import annotations

from gondwana_emulator.ptx.syntax import size_of


def bits(kind: str) -> int:
    """Return the bits of a PTX type."""
    return 1 if kind == "pred" else 8 * size_of(kind)


def integer(kind: str) -> str:
    """Return LLVM's integer of the width of a PTX type."""
    return f"i{bits(kind)}"


def native(kind: str) -> str:
    """Return LLVM's type for a PTX type."""
    return {"f32": "float", "f64": "double"}.get(kind) or integer(kind)


class Writer:
    """Collects the lines of a function, and the declarations that they need."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self._count = 0

    def fresh(self) -> str:
        """Return a name that is not in use."""
        self._count += 1
        return f"v{self._count}"

    def line(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append("  " + text)

    def value(self, text: str) -> str:
        """Append an instruction, and return the name of its result."""
        name = "%" + self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")

    def call(self, function: str, result: str, *arguments: tuple[str, str]) -> str:
        """Append a call of a function of LLVM or of the C library, and return the name of its result.

        Args:
            function: name of the function.
            result: type of the result.
            arguments: type and value of each argument.
        """
        kinds = ", ".join(kind for kind, _ in arguments)
        self.declarations[function] = f"declare {result} @{function}({kinds})"
        return self.value(f"call {result} @{function}({', '.join(f'{kind} {value}' for kind, value in arguments)})")

    def helper(self, name: str, text: str) -> None:
        """Define a function once."""
        self.declarations[name] = text

    def select(self, condition: str, kind: str, yes: str, no: str) -> str:
        """Append a choice."""
        return self.value(f"select i1 {condition}, {kind} {yes}, {kind} {no}")

    def compare(self, how: str, kind: str, left: str, right: str) -> str:
        """Append a comparison of integers."""
        return self.value(f"icmp {how} {kind} {left}, {right}")

    def convert(self, how: str, source: str, value: str, target: str) -> str:
        """Append a conversion; nothing if the types are the same."""
        return value if source == target else self.value(f"{how} {source} {value} to {target}")

    def resize(self, value: str, source: int, target: int, *, signed: bool = False) -> str:
        """Append the conversion of an integer of `source` bits to one of `target` bits."""
        how = "trunc" if target < source else "sext" if signed else "zext"
        return self.convert(how, f"i{source}", value, f"i{target}")
