"""Results of applications and benchmarks (``--json``): their schema, the machine behind them, and lines of code."""

from gondwana.results.files import ResultError, check_writable, write_bytes, write_json, write_text
from gondwana.results.host import environment, loaded_mpi, processor
from gondwana.results.lines import LINE_KINDS, code_lines, count_lines
from gondwana.results.schema import VERSION, check, json_schema, read, write_application
from gondwana.results.units import units_of

__all__ = [
    "LINE_KINDS",
    "VERSION",
    "ResultError",
    "check",
    "check_writable",
    "code_lines",
    "count_lines",
    "environment",
    "json_schema",
    "loaded_mpi",
    "processor",
    "read",
    "units_of",
    "write_application",
    "write_bytes",
    "write_json",
    "write_text",
]
