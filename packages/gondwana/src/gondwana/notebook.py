"""What a notebook shows of an object: a table of its facts and a drawing, as HTML without scripts and colours."""

from __future__ import annotations

import html
from collections.abc import Mapping

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def shown(title: str, facts: Mapping[str, object], drawing: str = "") -> str:
    """Return the HTML of an object: its title above a table of facts, with a drawing beside it. Local.

    Args:
        title: kind and name of the object.
        facts: values by their names, as plain text.
        drawing: an SVG element, or other HTML.
    """
    rows = "".join(
        f'<tr><th style="text-align:left">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(str(value))}</td></tr>'
        for name, value in facts.items()
    )
    return (
        f"<div><strong>{html.escape(title)}</strong>"
        '<div style="display:flex;flex-wrap:wrap;gap:1em 2em;align-items:center">'
        f"<table>{rows}</table>{drawing}</div></div>"
    )


def svg(width: float, height: float, content: str, about: str) -> str:
    """Return a drawing in the colour of the text around it, which dark notebooks change. Local.

    Args:
        width: its width [px].
        height: its height [px].
        content: SVG elements.
        about: description for those who do not see it.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{html.escape(about)}" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="11" '
        f'stroke="currentColor" fill="currentColor">{content}</svg>'
    )


def cell(x: float, y: float, width: float, height: float, text: str, *, own: bool = False) -> str:
    """Return a box of a drawing with a text in it; that of this rank is shaded. Local."""
    label = (
        f'<text x="{x + width / 2:.1f}" y="{y + height / 2 + 4:.1f}" text-anchor="middle" stroke="none">'
        f"{html.escape(text)}</text>"
    )
    box = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill-opacity="{0.2 if own else 0}"/>'
    )
    return box + (label if width > 6 * len(text) and height > 10 else "")


def nbytes_text(nbytes: int) -> str:
    """Return a number of bytes as people read it. Local.

    Example:
        >>> nbytes_text(512), nbytes_text(3 * 2**20)
        ('512 B', '3 MiB')
    """
    power = max(0, min(len(_UNITS) - 1, (abs(nbytes).bit_length() - 1) // 10))
    return f"{nbytes / 1024**power:.4g} {_UNITS[power]}"
