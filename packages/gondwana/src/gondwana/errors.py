"""The exceptions that Gondwana raises on purpose: one root, each with a builtin parent."""

from __future__ import annotations


class GondwanaError(Exception):
    """Root of all errors that Gondwana raises on purpose."""


class UsageError(GondwanaError, ValueError):
    """An illegal argument, setting or input: the message has what was given, what is legal and what to change.

    A program that ends with it prints this one line without a traceback and exits with status 2.
    """


class LaunchError(GondwanaError, RuntimeError):
    """The parallel job cannot work in the way in which it was started."""


class KernelError(GondwanaError, TypeError):
    """A kernel could not be compiled for the arguments that it was given."""
