"""Damage to the files of a folder, at random."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

Harm = Callable[[random.Random, Path], None]


def _range(rng: random.Random, file: Path) -> tuple[int, int]:
    """A range of bytes, often a small one."""
    size = max(1, file.stat().st_size)
    begin = rng.randrange(size)
    return begin, min(size, begin + max(1, int(size ** rng.random())))


def _overwrite(file: Path, begin: int, content: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(begin)
        opened.write(content)


def truncate(rng: random.Random, file: Path) -> None:
    """Cut off the end, or everything."""
    os.truncate(file, rng.choice((0, rng.randrange(max(1, file.stat().st_size)))))


def extend(rng: random.Random, file: Path) -> None:
    """Append bytes that do not belong there."""
    with file.open("ab") as opened:
        opened.write(rng.randbytes(rng.randint(1, 200)))


def zero(rng: random.Random, file: Path) -> None:
    """Overwrite a range, or everything, with zeros."""
    begin, end = rng.choice(((0, file.stat().st_size), _range(rng, file)))
    _overwrite(file, begin, bytes(end - begin))


def flip(rng: random.Random, file: Path) -> None:
    """Flip one to three bits."""
    content = bytearray(file.read_bytes() or b"\0")
    for _ in range(rng.randint(1, 3)):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def scramble(rng: random.Random, file: Path) -> None:
    """Overwrite a range with anything."""
    begin, end = _range(rng, file)
    _overwrite(file, begin, rng.randbytes(end - begin))


def swap(rng: random.Random, file: Path) -> None:
    """Exchange two ranges of a file, or the file with another."""
    others = [other for other in file.parent.iterdir() if other != file and other.is_file()]
    if others and rng.random() < 0.5:
        other = rng.choice(sorted(others))
        mine, theirs = file.read_bytes(), other.read_bytes()
        file.write_bytes(theirs)
        other.write_bytes(mine)
        return
    content = file.read_bytes()
    width = max(1, len(content) // rng.choice((2, 4, 16, 64)))
    one, two = sorted((rng.randrange(len(content) or 1), rng.randrange(len(content) or 1)))
    if one + width <= two and two + width <= len(content):
        _overwrite(file, one, content[two : two + width])
        _overwrite(file, two, content[one : one + width])


def remove(rng: random.Random, file: Path) -> None:
    """Remove the file."""
    file.unlink()


def folder(rng: random.Random, file: Path) -> None:
    """Put a folder in its place."""
    file.unlink()
    file.mkdir()


def link(rng: random.Random, file: Path) -> None:
    """Put a link in its place, to nothing, to itself, or to another file."""
    file.unlink()
    file.symlink_to(rng.choice(("nowhere", file.name, "../nowhere/at/all", "md.idx", "/dev/null")))


def pipe(rng: random.Random, file: Path) -> None:
    """Put a named pipe without a writer in its place."""
    file.unlink()
    os.mkfifo(file)


def each_byte(file: Path, places: Iterable[int] | None = None, mask: int = 0x80) -> Iterator[int]:
    """Change one byte of a file after the other, by default to one that no text of ours has, and yield its place.

    Each is restored before the next one is changed.
    """
    content = file.read_bytes()
    try:
        for place in range(len(content)) if places is None else places:
            changed = bytearray(content)
            changed[place] ^= mask
            file.write_bytes(changed)
            yield place
    finally:
        file.write_bytes(content)


def same(source: Path, target: Path) -> bool:
    """Whether all that belongs to a dataset is what it was; bytes after its end, and whether it is open, do not."""
    for file in source.iterdir():
        copy = target / file.name
        if file.name == "profiling.json":
            continue
        if not copy.is_file():
            return False
        was, now = bytearray(file.read_bytes()), bytearray(copy.read_bytes())
        if file.name == "md.idx":
            was[39:40] = now[39:40]
        if not now.startswith(was):
            return False
    return True


HARMS: tuple[Harm, ...] = (truncate, extend, zero, flip, scramble, swap, remove, folder, link, pipe)


def damage(rng: random.Random, target: Path) -> str:
    """Damage a file of a folder, or the folder itself unless it is gone, and return the name of the damage."""
    if not target.is_dir():
        return "nothing left"
    if rng.random() < 0.03:
        shutil.rmtree(target)
        rng.choice((Path.touch, Path.mkdir, lambda path: path.symlink_to("nowhere")))(target)
        return f"{target.name} replaced"
    files = sorted(file for file in target.iterdir() if file.is_file() and not file.is_symlink())
    if not files:
        return "nothing left"
    file, harm = rng.choice(files), rng.choice(HARMS)
    harm(rng, file)
    return f"{harm.__name__} {file.name}"
