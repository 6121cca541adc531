"""HTML and SVG as text in which everything that comes from a file is escaped."""

from __future__ import annotations

import html
import unicodedata


class Markup(str):
    """Text that is markup already, and is not escaped again."""

    __slots__ = ()


Content = str | float | None
"""Contents of elements and values of attributes: text is escaped unless it is `Markup`, None is left out."""


def tag(name: str, *content: Content, **attributes: Content) -> Markup:
    """Return an element. Local.

    Args:
        name: name of the element.
        content: content of the element, in order.
        attributes: attributes by name, with "_" for "-"; a final "_" is dropped, as in `class_`.

    Example:
        >>> tag("text", "a < b", class_="axis", text_anchor="end", x=1.5)
        '<text class="axis" text-anchor="end" x="1.5">a &lt; b</text>'
    """
    words = (
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{''.join(words)}>{join(content)}</{name}>")


def join(content: list[Markup] | tuple[Content, ...]) -> Markup:
    """Return contents one after the other. Local."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in content if part is not None))


def escape(value: Content) -> str:
    r"""Return a text or number as it may stand in an element and in a quoted attribute. Local.

    Characters that a page cannot have or that nobody sees, such as those that turn the direction of writing, become
    the replacement character.

    Example:
        >>> escape("<b>"), escape('"'), escape(1 / 3), escape("\x00")
        ('&lt;b&gt;', '&quot;', '0.33', '\ufffd')
    """
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    text = "" if value is None else str(value)
    return html.escape("".join(map(_visible, text)))


def _visible(character: str) -> str:
    hidden = unicodedata.category(character).startswith("C") and character != "\n"
    return "\N{REPLACEMENT CHARACTER}" if hidden else character
