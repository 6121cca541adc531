"""Fourier transforms of global arrays along any of their axes."""

from gondwana.fft.plans import Plan as Plan
from gondwana.fft.transforms import fftn as fftn, ifftn as ifftn, irfftn as irfftn, plan as plan, rfftn as rfftn
