"""Traces: the acts of each rank and their times, recorded in files while it runs, joined by `gondwana.traces`.

Whether a process records is decided when it imports this package, by the environment variable GONDWANA_TRACE. Without
it decorators return what they decorate, so that programs pay nothing.
"""

from gondwana.runtime.tracing.clocks import Clock as Clock
from gondwana.runtime.tracing.part import PARTS as PARTS
from gondwana.runtime.tracing.part import VARIABLE as VARIABLE
from gondwana.runtime.tracing.recorders import Recorder as Recorder
from gondwana.runtime.tracing.recorders import recorder as recorder
from gondwana.runtime.tracing.spans import Route as Route
from gondwana.runtime.tracing.spans import counted as counted
from gondwana.runtime.tracing.spans import each_method as each_method
from gondwana.runtime.tracing.spans import span as span
from gondwana.runtime.tracing.spans import traced as traced
