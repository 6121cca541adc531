"""Synchronisation of ranks through memory: signals, atomic operations, locks."""

from gondwana.sync.atomics import AtomicDomain as AtomicDomain
from gondwana.sync.locks import Lock as Lock
from gondwana.sync.signals import Signal as Signal
from gondwana.sync.signals import signal as signal
from gondwana.sync.signals import wait as wait
