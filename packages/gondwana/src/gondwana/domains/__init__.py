"""Index sets as values: points, boxes, unions of boxes, and their calculus. No MPI, no compiler, no arrays."""

from gondwana.domains.domain import Domain as Domain
from gondwana.domains.index_set import IndexSet as IndexSet
from gondwana.domains.point import Offset as Offset
from gondwana.domains.point import Point as Point
from gondwana.domains.point import PointLike as PointLike
from gondwana.domains.point import X as X
from gondwana.domains.point import Y as Y
from gondwana.domains.point import Z as Z
from gondwana.domains.point import as_point as as_point
from gondwana.domains.rect import RectDomain as RectDomain
