"""The report: results of benchmarks, applications, models and traces as one HTML page (`gondwana report`)."""

from gondwana_bench.report.document import page
from gondwana_bench.report.sources import Source, read

__all__ = ["Source", "page", "read"]
