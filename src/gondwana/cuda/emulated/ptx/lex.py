"""Words of PTX."""

from __future__ import annotations

import re
from typing import NamedTuple

from gondwana.cuda.emulated.ptx.syntax import InvalidPtxError

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
    """One word: its class, its text, where it starts in the whole text and in which line."""

    kind: str
    text: str
    start: int
    line: int


def tokens(text: str) -> list[Token]:
    """Split a text; comments are gone, the last token is an empty one."""
    found, at, line = [], 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at] == "\0":
                break
            raise InvalidPtxError(f"unexpected {text[at]!r}", line)
        if match.lastgroup != "skip":
            found.append(Token(match.lastgroup or "", match.group(), at, line))
        line += text.count("\n", at, match.end())
        at = match.end()
    return [*found, Token("end", "", at, line)]
