"""The functions of `gondwana bench fib` that are compiled, or run in other processes."""

from __future__ import annotations

from typing import Any

import gondwana as gw


@gw.jit
def fibonacci(n: int) -> int:
    """Return the n-th Fibonacci number, by its definition."""
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@gw.jit
def total(numbers: Any, calls: int) -> int:
    """Return the sum of the results of calls, with the two equal numbers in turns, as in C."""
    result = 0
    for i in range(calls):
        result += fibonacci(numbers[i & 1])
    return result


def interpreted(n: int) -> int:
    """Return the n-th Fibonacci number without compiled code."""
    return n if n < 2 else interpreted(n - 1) + interpreted(n - 2)


def compiled(n: int) -> int:
    """Call the compiled function: a plain one, which `multiprocessing` can send by its name."""
    return fibonacci(n)
