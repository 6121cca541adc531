"""Arrays on domains: local ones, and global ones divided over the ranks of a team."""

from gondwana.arrays import device_buffers as _device_buffers  # noqa: F401 - it registers with teams
from gondwana.arrays.array import Array as Array
from gondwana.arrays.create import (
    empty as empty,
    empty_like as empty_like,
    from_function as from_function,
    from_numpy as from_numpy,
    full as full,
    full_like as full_like,
    ones as ones,
    scatter as scatter,
    zeros as zeros,
    zeros_like as zeros_like,
)
from gondwana.arrays.device_array import DeviceArray as DeviceArray
from gondwana.arrays.divided import GlobalView as GlobalView
from gondwana.arrays.expressions.expression import Expression as Expression
from gondwana.arrays.expressions.functions import coordinates as coordinates, where as where
from gondwana.arrays.ghost_exchange import Exchange as Exchange, exchange as exchange
from gondwana.arrays.global_array import GlobalArray as GlobalArray
from gondwana.arrays.interop import from_dlpack as from_dlpack, on_device as on_device
from gondwana.arrays.layout import Layout as Layout
from gondwana.arrays.reference import ArrayReference as ArrayReference, array_at as array_at, share as share
from gondwana.arrays.remote import RemoteArray as RemoteArray
