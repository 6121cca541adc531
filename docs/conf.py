"""How the documentation is built: `make docs`."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from latex2mathml.converter import convert

import gondwana as gw
from gondwana import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

sys.path.insert(0, str(Path(__file__).parent))

project = "Gondwana"
author = "The Gondwana developers"
copyright = f"2026 {author}"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "links"]
exclude_patterns = ["_build"]

# Buttons copy commands and statements without prompts and output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_remove_prompts = True

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_type_aliases = {f"npt.{name}": f"numpy.typing.{name}" for name in ("ArrayLike", "DTypeLike", "NDArray")}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
default_role = "literal"  # `name` in a docstring is code

html_theme = "pydata_sphinx_theme"
html_title = "Gondwana"
html_show_sourcelink = False
html_static_path = ["_static"]
# Pages without others below them need no list of them.
html_sidebars = {key: [] for key in ("studies", "reliability", "security", "genindex", "search")}
html_css_files = ["gondwana.css"]
html_context = {"default_mode": "auto"}  # else the theme reports an error to each new visitor
html_theme_options = {"navigation_with_keys": False, "show_prev_next": True, "secondary_sidebar_items": ["page-toc"]}


html_math_renderer = "mathml"

_LONG = 14
"""Letters of a word that is wide for a column of a table on a phone."""


def write_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula as MathML, which browsers show without a script."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def write_block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula in lines of its own."""
    writer.body.append(f'<div class="formula">{convert(node.astext())}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    for function in gw.empty, gw.zeros, gw.ones, gw.full, gw.from_numpy, gw.from_function:
        show_defaults(function)
    app.connect("doctree-read", let_break)
    app.connect("build-finished", draw_report)


def let_break(app: Sphinx, document: nodes.document) -> None:
    """Let names of many letters break at dots and capitals in tables, which then fit a phone."""
    for entry in document.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            parts = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[a-z]\.)(?=\w)", "\u200b", text)
            if max(map(len, text.split()), default=0) > _LONG and not isinstance(text.parent, nodes.literal):
                text.parent.replace(text, nodes.Text(parts))


class Text:
    """Stands for a value by a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def show_defaults(function: Any) -> None:
    """Show default values by name: Sphinx looks for them in the source, where the constructors share one record."""
    texts = {id(float): "float", id(gw.world): "world", id(gw.host): "host"}
    signature = inspect.signature(function)
    function.__signature__ = signature.replace(
        parameters=[
            one.replace(default=Text(texts[id(one.default)])) if id(one.default) in texts else one
            for one in signature.parameters.values()
        ]
    )
    del function.__wrapped__


def draw_report(app: Sphinx, exception: Exception | None) -> None:
    """The page of the recorded results, without those that the model is fitted to: hundreds of short runs."""
    from gondwana_bench.report import page, read

    if exception is None and app.builder.format == "html":
        files = sorted(Path(app.srcdir, "results").glob("*.json"))
        drawn = [file for file in files if not file.name.startswith("model-")]
        Path(app.outdir, "report.html").write_text(page(read(drawn)), encoding="utf-8")
