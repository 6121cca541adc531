"""What must hold between two ranks on two hosts, where bytes travel through a network and never through memory."""

from __future__ import annotations

import socket

import window_checks
from checks import run_checks

from gondwana.teams import world

SHARED = (
    "check_a_sleeping_target_delays_but_corrupts_nothing",
    "check_accumulates",
    "check_compare_and_swap_is_a_lock",
    "check_different_operations_on_one_word_exclude_each_other",
    "check_epochs",
    "check_fetch_and_add_gives_a_permutation",
    "check_parcels_of_any_size_arrive_once",
    "check_progress_at_the_target_is_enough",
    "check_random_puts_and_gets_against_a_model",
    "check_the_budget_towards_a_rank",
)
"""Checks of other programs that are run here, too."""


def check_each_rank_has_a_host_of_its_own():
    assert world.size == 2
    assert len(set(world.allgather(socket.gethostname()))) == 2
    assert world.node.size == 1
    assert world.node_count == 2
    assert [world.node_of(rank) for rank in range(2)] == [0, 1]
    assert world.leaders.size == 2


if __name__ == "__main__":
    run_checks(globals() | {name: getattr(window_checks, name) for name in SHARED})
