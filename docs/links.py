"""Links of the documentation: names of the interface in text, types in signatures, a table at the top of each module.

Types of other packages are found by the rules by which their documentation is addressed: so a build needs no network.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

import gondwana as gw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_IN_TEXT = re.compile(r"(?:gw|gondwana)\.([\w.]+?)(\(.*\))?")
_IN_INTERFACE = re.compile(r"([A-Z]\w+(?:\.\w+)?)(\(.*\))?")
_PUBLIC = re.compile(
    r"\.\. (current|auto|)(module|function|class|exception|data):: ([\w.]+).*(?:\n +:members:([^\n]*))?"
)

_PYTHON = "https://docs.python.org/3/library/{module}.html#{name}"
_NUMPY = "https://numpy.org/doc/stable/reference/"
_FOREIGN = {
    "numpy.typing": _NUMPY + "typing.html#{name}",
    "numpy": _NUMPY + "generated/{name}.html",
    "mpi4py.MPI": "https://mpi4py.readthedocs.io/en/stable/reference/{name}.html",
    "xarray": "https://docs.xarray.dev/en/stable/generated/{name}.html",
    "asyncio": "https://docs.python.org/3/library/asyncio-future.html#{name}",
    **dict.fromkeys(("collections.abc", "concurrent.futures", "os", "pathlib", "re", "types"), _PYTHON),
}
"""Address of a class in the documentation of its module; the module that is named first counts."""
_WRITTEN = {"np": "numpy", "npt": "numpy.typing"}
"""What signatures call modules."""
_MOVED = {"xarray.core.dataset.Dataset": "xarray.Dataset"}


class NamesInText(SphinxTransform):
    """Makes `gw.zeros` in a text, and `GlobalArray` in a docstring, a link to its description."""

    default_priority = 500

    def apply(self, **kwargs: Any) -> None:
        pattern = _IN_INTERFACE if self.env.docname.startswith("api/") else None
        for literal in list(self.document.findall(nodes.literal)):
            text = literal.astext()
            found = _IN_TEXT.fullmatch(text) or (pattern and pattern.fullmatch(text))
            if found and not isinstance(literal.parent, nodes.reference | addnodes.pending_xref):
                place = addnodes.pending_xref(
                    "", refdomain="py", reftype="obj", reftarget=f"gondwana.{found[1]}", refdoc=self.env.docname
                )
                literal.replace_self(place)
                place += literal


def resolve(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: Any) -> nodes.reference | None:
    """Find a type of a signature by its public name, or in the documentation of another package."""
    target = str(node.get("reftarget", ""))
    module, _, name = target.rpartition(".")
    if (not module or module.split(".")[0] == "gondwana") and hasattr(gw, name):
        found = env.get_domain("py").resolve_xref(
            env, node["refdoc"], app.builder, "obj", f"gondwana.{name}", node, content
        )
        return found if isinstance(found, nodes.reference) else None
    module = _WRITTEN.get(module, module)
    target = _MOVED.get(target, f"{module}.{name}")
    for known, address in _FOREIGN.items():
        if module == known or target == f"{known}.{name}":
            place = address.format(module=module, name=target)
            return nodes.reference("", "", content, internal=False, refuri=place, reftitle=f"{target} in {known}")
    return None


def begin_with_table(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put a table of the names of a page of the interface, with the first lines of their docstrings, at its top."""
    names = list(names_of(source[0])) if docname.startswith("api/") else []
    if len(names) > 1:
        rows = (
            f"   * - :py:obj:`{name.removeprefix('gondwana.')} <{name}>`\n     - {first_line(name)}\n" for name in names
        )
        heading, line, rest = source[0].split("\n", 2)
        table = ".. list-table::\n   :class: names\n   :widths: 30 70\n\n" + "".join(rows)
        source[0] = f"{heading}\n{line}\n\n{table}\n{rest}"


def names_of(page: str) -> Iterator[str]:
    """The names that a page of the interface describes."""
    module = ""
    for _, kind, name, members in _PUBLIC.findall(page):
        if kind == "module":
            module = name
            found = [one.strip() for one in members.split(",") if one.strip()]
            yield from (f"{module}.{one}" for one in found)
        else:
            yield name if name.startswith("gondwana.") else f"{module}.{name}"


def first_line(name: str) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(pkgutil.resolve_name(name)) or "").partition("\n")[0]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(NamesInText)
    app.connect("missing-reference", resolve)
    app.connect("source-read", begin_with_table)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
