"""Explicit vectors in compiled code: several numbers at a time, for loops that the compiler does not vectorise."""

from gondwana.simd.vectors import Vector as Vector
from gondwana.simd.vectors import exp as exp
from gondwana.simd.vectors import fill as fill
from gondwana.simd.vectors import fma as fma
from gondwana.simd.vectors import gather as gather
from gondwana.simd.vectors import load as load
from gondwana.simd.vectors import maximum as maximum
from gondwana.simd.vectors import minimum as minimum
from gondwana.simd.vectors import prefetch as prefetch
from gondwana.simd.vectors import scatter as scatter
from gondwana.simd.vectors import store as store
