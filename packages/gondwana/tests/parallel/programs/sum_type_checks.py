"""Sums, products and minima over the ranks, of all types.

Each compiles a function of its own, so `make test-more` runs them. Prints one JSON line per check.
"""

from __future__ import annotations

from checks import run_checks
from collective_checks import products
from verbs_checks import sums


def check_sums_of_all_types():
    sums(("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"))


def check_products_of_all_types():
    products("bhilqBHILQfd")


if __name__ == "__main__":
    run_checks(globals())
