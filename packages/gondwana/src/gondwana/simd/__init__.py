"""Explicit vectors in compiled code: several numbers at a time, for loops that the compiler does not vectorise."""

from gondwana.simd.vectors import (
    Vector as Vector,
    exp as exp,
    fill as fill,
    fma as fma,
    gather as gather,
    load as load,
    maximum as maximum,
    minimum as minimum,
    prefetch as prefetch,
    scatter as scatter,
    store as store,
)
