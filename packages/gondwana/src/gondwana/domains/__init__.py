"""Index sets as values: points, boxes, unions of boxes, and their calculus. No MPI, no compiler, no arrays."""

from gondwana.domains.domain import Domain as Domain
from gondwana.domains.index_set import IndexSet as IndexSet
from gondwana.domains.point import (
    Offset as Offset,
    Point as Point,
    PointLike as PointLike,
    X as X,
    Y as Y,
    Z as Z,
    as_point as as_point,
)
from gondwana.domains.rect import RectDomain as RectDomain
