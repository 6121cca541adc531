"""Words of PTX."""

from __future__ import annotations

import re
from typing import NamedTuple

from gondwana_emulator.ptx.syntax import InvalidPtxError

_TOKEN = re.compile(
    r"""
    (?P<skip>   [ \t\r\n]+ | //[^\n]* | /\*.*?\*/ )
  | (?P<string> "[^"]*" )
  | (?P<float>  0[fF][0-9a-fA-F]{8} | 0[dD][0-9a-fA-F]{16} | \d+\.\d*(?:[eE][+-]?\d+)? )
  | (?P<int>    0[xX][0-9a-fA-F]+U? | \d+U? )
  | (?P<word>   [%$_.A-Za-z] (?: [\w$.] | :: )* )
  | (?P<mark>   [][{}()<>,;:+\-|!@=] )
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """One word: its class, its text, its start in the whole text and its line."""

    kind: str
    text: str
    start: int
    line: int


def tokens(text: str) -> list[Token]:
    """Split a text; comments are removed, the last tokens are empty."""
    found, at, line = [], 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at] == "\0":
                break
            raise InvalidPtxError(f"unexpected {text[at]!r}", line)
        if match.lastgroup == "skip":
            line += text.count("\n", at, match.end())
        else:
            found.append(Token(match.lastgroup or "", match.group(), at, line))
        at = match.end()
    return [*found, *[Token("end", "", at, line)] * 2]


def integer(text: str) -> int:
    """Return the value of a word of class "int"."""
    return int(text.rstrip("U"), 16) if text[:2] in ("0x", "0X") else int(text.rstrip("U"))


class Reader:
    """Reads a text word by word."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0

    @property
    def now(self) -> Token:
        """The next word."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """Read a word."""
        if self.now.kind == "end":
            raise self.wrong("")
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, *texts: str) -> str:
        """Read a word if it is one of these, and return it, else ""."""
        return self.next().text if self.now.text in texts and self.now.kind != "string" else ""

    def expect(self, text: str) -> None:
        """Read a word that must be there."""
        if not self.accept(text):
            raise self.wrong(f"{text!r} expected, found {self.now.text!r}")

    def wrong(self, reason: str) -> InvalidPtxError:
        """Return the error that names the line."""
        early = self.now.kind == "end"
        return InvalidPtxError("the text ends too early" if early else reason, self.now.line)

    def name(self) -> str:
        """Read a name."""
        if self.now.kind != "word":
            raise self.wrong(f"a name expected, found {self.now.text!r}")
        return self.next().text

    def integer(self) -> int:
        """Read an integer with its sign."""
        sign = -1 if self.accept("-") else 1
        if self.now.kind != "int":
            raise self.wrong(f"a number expected, found {self.now.text!r}")
        return sign * integer(self.next().text)
