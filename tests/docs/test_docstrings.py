"""The examples in docstrings run, in every module."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

PACKAGES = ("gondwana", "gondwana_apps", "gondwana_bench", "gondwana_emulator")
OPTIONAL = ("mpi4py", "adios2", "cuda", "numba_cuda", "matplotlib", "xarray", "hypothesis", "nbclient", "jupytext")


def module_names() -> list[str]:
    packages = {name: importlib.import_module(name).__path__ for name in PACKAGES}
    inside = (pkgutil.walk_packages(path, prefix=f"{name}.") for name, path in packages.items())
    return [*PACKAGES, *(module.name for modules in inside for module in modules)]


@pytest.mark.parametrize("name", module_names())
def test_examples_in_docstrings_run(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in OPTIONAL:
            raise
        pytest.skip(f"needs the optional package {error.name}")
    # Examples are written as a user writes them, after `import gondwana as gw` and with its public names at hand.
    public = {key: value for key, value in vars(importlib.import_module("gondwana.domains")).items() if key[0] != "_"}
    failed, _ = doctest.testmod(module, extraglobs=public | {"gw": importlib.import_module("gondwana")})
    assert failed == 0
