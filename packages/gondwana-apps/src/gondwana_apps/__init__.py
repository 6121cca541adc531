"""Applications on Gondwana; `pyproject.toml` has the names by which ``gondwana run`` knows them."""

__version__ = "0.1.0"
