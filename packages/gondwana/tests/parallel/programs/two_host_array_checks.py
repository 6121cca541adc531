"""What copies and arrays must do between two ranks on two hosts: see `two_host_checks`; examples of the guide, too."""

from __future__ import annotations

import cell_checks
import copy_checks
import divided_checks
import expression_checks
import plan_checks
import points_checks
import wall_checks
from checks import run_checks

OF_COPIES = (
    "check_access_regions",
    "check_indexed_chunks",
    "check_irregular_pieces",
    "check_memory_of_the_user",
    "check_records",
)
"""Checks of copies that are run here, too."""

OF_PLANS = ("check_pieces_of_any_lengths",)
"""The same of plans."""

OF_DIVIDED = (
    "check_any_view_to_any_view",
    "check_cells_anywhere",
    "check_scatter_gather_and_planes",
    "check_teams_of_some_ranks",
)
"""The same of copies between global arrays."""

OF_POINTS = (
    "check_ghosts_of_random_layouts_are_added_to_their_owners",
    "check_particles",
    "check_records_move_to_their_owners",
    "check_shallow_water",
)
"""The same of ghosts that are added to their owners, and of records that move to theirs."""

OF_WALLS = (
    "check_compiled_code_fills_walls",
    "check_the_example_of_a_plate_with_holes",
    "check_the_inner_cells_can_be_computed_meanwhile",
)
"""The same of walls."""

OF_CELLS = (
    "check_components_in_front",
    "check_the_example_is_right_on_any_number_of_ranks",
)
"""The same of cells with several values."""

OF_EXPRESSIONS = (
    "check_assignments",
    "check_reductions_of_integers",
)
"""The same of arithmetic."""


if __name__ == "__main__":
    sources = (
        (copy_checks, OF_COPIES),
        (plan_checks, OF_PLANS),
        (divided_checks, OF_DIVIDED),
        (points_checks, OF_POINTS),
        (wall_checks, OF_WALLS),
        (cell_checks, OF_CELLS),
        (expression_checks, OF_EXPRESSIONS),
    )
    run_checks({name: getattr(module, name) for module, names in sources for name in names})
