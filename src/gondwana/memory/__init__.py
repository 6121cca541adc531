"""Memory that ranks share."""

from gondwana.memory.segment import Segment as Segment
