"""What has another name since it is a package of its own: importing it by the old one says the new one."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

MOVED = {
    "gondwana.apps": ("gondwana_apps", "apps"),
    "gondwana.bench": ("gondwana_bench", "bench"),
    "gondwana.cli.bench": ("gondwana_bench.cli.bench", "bench"),
    "gondwana.model": ("gondwana_bench.model", "bench"),
    "gondwana.report": ("gondwana_bench.report", "bench"),
    "gondwana.testing.emulated_gpu": ("gondwana_emulator", "emulator"),
}
"""Old name to new name, and the extra that installs it."""


class Finder:
    """Asked last of all finders, so it costs nothing while modules are found."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Raise an error for an old name, and find no other. Local.

        Raises:
            ModuleNotFoundError: It names the module as it is called now, and what installs it.
        """
        if name in MOVED:
            new, extra = MOVED[name]
            # With the old name, `from gondwana import apps` would say only that it cannot import that.
            raise ModuleNotFoundError(f"{name} is called {new} now: pip install 'gondwana[{extra}]'", name=new)
