"""Results (``--json``) of applications, benchmarks and models: schema, the machine behind them, lines of code."""

from gondwana.results.host import environment, loaded_mpi, processor
from gondwana.results.lines import LINE_KINDS, code_lines, count_lines
from gondwana.results.schema import (
    LARGEST,
    VERSION,
    Kind,
    ResultError,
    check,
    check_writable,
    json_schema,
    kind_of,
    read,
    read_content,
    write_application,
    write_bytes,
    write_json,
    write_model,
    write_text,
)
from gondwana.results.units import units_of

__all__ = [
    "LARGEST",
    "LINE_KINDS",
    "VERSION",
    "Kind",
    "ResultError",
    "check",
    "check_writable",
    "code_lines",
    "count_lines",
    "environment",
    "json_schema",
    "kind_of",
    "loaded_mpi",
    "processor",
    "read",
    "read_content",
    "units_of",
    "write_application",
    "write_bytes",
    "write_json",
    "write_model",
    "write_text",
]
