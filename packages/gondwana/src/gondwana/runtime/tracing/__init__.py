"""Traces: the acts of each rank and their times, recorded in files while it runs, joined by `gondwana.traces`.

Whether a process records is decided when it imports this package, by the environment variable GONDWANA_TRACE. Without
it decorators return what they decorate, so that programs pay nothing.
"""

from gondwana.runtime.tracing.part import PARTS as PARTS, VARIABLE as VARIABLE
from gondwana.runtime.tracing.recorders import Clock as Clock, Recorder as Recorder, recorder as recorder
from gondwana.runtime.tracing.spans import (
    Route as Route,
    counted as counted,
    each_method as each_method,
    source as source,
    span as span,
    traced as traced,
)
