"""The compiler's output for kernels and functions: LLVM IR, assembly, PTX, and figures of their loops."""

from gondwana.kernels.inspection.assembly import Registers as Registers
from gondwana.kernels.inspection.inspection import Inspection as Inspection, Traffic as Traffic, inspect as inspect
from gondwana.kernels.inspection.loops import Loop as Loop
