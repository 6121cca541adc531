"""The words of a rank's program, past launchers of MPI that would change them or take them for their own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence

RANK = "gondwana.cli.rank"
"""The module that a rank of `gondwana run` executes; words for it, made by `quote`, may follow."""

_QUOTED, _PACKED = "--quoted", "--packed"
"""The words before the words of a rank's program if some of them are quoted, or instead of all of them."""

_MARK = "="
"""Prefix of a quoted word."""

_VARIABLE = "GONDWANA_WORDS_{}"
"""The names of the variables with packed words, from 0 on."""

_LONGEST = 1 << 16
"""Bytes of words that are passed as words, and of a variable with packed ones; the system's limit is 128 KiB each."""


def quote(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the words of a rank's program such that no launcher of MPI changes them or takes them for its own. Local.

    Behind the program, Open MPI's launcher still renames `--map-by`, `--rank-by` and `--bind-to`, and obeys `--mca` and
    its kind; at `:` both Open MPI's and MPICH's take what follows for another program. Open MPI's also gives each rank
    all words in one variable, whose length the system limits.

    Args:
        words: words for the program.

    Returns:
        The words that the rank gets instead, and the environment variables that belong to them: see `unquote`.
    """
    special = ("-", ":", _MARK)
    if sum(len(os.fsencode(word)) + 1 for word in words) > _LONGEST:
        import binascii
        import zlib

        packed = binascii.b2a_base64(zlib.compress(os.fsencode("\0".join(words))), newline=False).decode()
        pieces = (packed[start : start + _LONGEST] for start in range(0, len(packed), _LONGEST))
        return [_PACKED], {_VARIABLE.format(number): piece for number, piece in enumerate(pieces)}
    if any(word.startswith(special) for word in words):
        return [_QUOTED, *(_MARK + word if word.startswith(special) else word for word in words)], {}
    return list(words), {}


def unquote(words: Sequence[str], environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the words that `quote` was given; other words are returned unchanged. Local."""
    if list(words[:1]) == [_QUOTED]:
        return [word.removeprefix(_MARK) for word in words[1:]]
    if list(words[:1]) != [_PACKED]:
        return list(words)
    import binascii
    import zlib

    packed = "".join([environment[name] for name in _packed(environment)])
    return os.fsdecode(zlib.decompress(binascii.a2b_base64(packed))).split("\0")


def command(words: Sequence[str], environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the words of a process as if no word had been quoted. Local."""
    start = words.index(RANK) + 1 if RANK in words else len(words)
    start += list(words[start : start + 1]) == ["-m"]
    return [*words[:start], *unquote(words[start:], environment)]


def forget_words() -> None:
    """Remove the variables that only carried the words of this process here. Local."""
    for name in list(_packed(os.environ)):
        del os.environ[name]


def _packed(environment: Mapping[str, str]) -> Iterator[str]:
    return itertools.takewhile(environment.__contains__, map(_VARIABLE.format, itertools.count()))
