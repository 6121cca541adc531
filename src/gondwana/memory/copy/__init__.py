"""Moving data: `copy`, `put` and `get` between any two places, and the paths that they take."""

from gondwana.memory.copy import debug
from gondwana.memory.copy import paths as paths
from gondwana.memory.copy.places import Place as Place
from gondwana.memory.copy.places import strided as strided
from gondwana.memory.copy.transfer import Transfer as Transfer
from gondwana.memory.copy.verbs import copy as copy
from gondwana.memory.copy.verbs import copy_indexed as copy_indexed
from gondwana.memory.copy.verbs import get as get
from gondwana.memory.copy.verbs import put as put
from gondwana.world import Team
from gondwana.world.start import at_connect


def _obey_environment(_: Team) -> None:
    paths.force_from_environment()
    debug.from_environment()


at_connect(_obey_environment)
