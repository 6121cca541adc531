"""Gondwana: one global address space over many memories."""

__version__ = "0.1.0"
