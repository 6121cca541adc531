"""Checksums of pieces of data files against published values, whatever part of a file they are of."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from gondwana.io import checksums
from gondwana.io.checksums import Piece

LONG = 600_013  # more than is read at a time


def noise(count):
    return np.random.default_rng(7).bytes(count)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
        (noise(LONG), 0x93DB2037D595CB26),
    ],
    ids=["a", "abc", "a sentence", "longer than a buffer"],
)
def test_published_values(tmp_path, text, value):
    file = tmp_path / "data.0"
    file.write_bytes(b"before" + text + b"behind")
    begin, end = 6, 6 + len(text)
    assert checksums._sum_mapped(file, begin, end) == value
    assert checksums._sum_of_file(file, Piece("data.0", begin, end, value, "xxh64")) == (value, len(text))
    crc = zlib.crc32(text)
    assert checksums._sum_of_file(file, Piece("data.0", begin, end, crc)) == (crc, len(text))


def test_a_file_that_ends_too_early(tmp_path):
    (tmp_path / "data.0").write_bytes(b"abc")
    piece = Piece("data.0", 0, 5, 0x44BC2CF5AD770999, "xxh64")
    assert checksums._sum_of_file(tmp_path / "data.0", piece) == (piece.sum, 3)
    assert [reason for _, reason in checksums.differing(tmp_path, [piece])] == ["data.0 has 3 of 5 bytes"]
