"""The exceptions that Gondwana raises on purpose: one root, each with a builtin parent."""

from __future__ import annotations


class GondwanaError(Exception):
    """Root of all errors that Gondwana raises on purpose."""


class UsageError(GondwanaError, ValueError):
    """Input that a user gave is illegal: the message says what was given, what is legal and what to change.

    A program that ends with it prints that one line, no traceback, and exits with status 2.
    """


class LaunchError(GondwanaError, RuntimeError):
    """The parallel job was started in a way that cannot work."""


class KernelError(GondwanaError, TypeError):
    """A kernel could not be compiled for the arguments that it was given."""
