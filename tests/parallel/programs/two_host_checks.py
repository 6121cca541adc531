"""What must hold between two ranks on two hosts, where bytes travel through a network and never through memory."""

from __future__ import annotations

import socket

import compiled_rma_checks
import pool_checks
import remote_channel_checks
import remote_task_checks
import synchronisation_checks
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
"""Checks of another program that are run here, too."""

OF_POOLS = (
    "check_every_case",
    "check_idle_ranks_sleep",
)
"""The same of pools."""
OF_CHANNELS = (
    "check_a_put_beyond_the_capacity_waits",
    "check_a_put_without_capacity_waits_for_its_taker",
    "check_everybody_sees_the_end",
    "check_many_items_of_all_ranks_arrive_once_and_in_the_order_of_each",
    "check_many_take_what_many_put",
)
"""The same of remote channels."""
OF_TASKS = (
    "check_a_spawned_function_may_wait_and_spawn",
    "check_cancellation",
    "check_loops",
    "check_many_futures_at_the_same_time",
    "check_results_and_errors_come_back",
)
"""The same of spawned functions and divided loops."""


OF_COMPILED_CODE = (
    "check_more_puts_with_signals_than_may_be_under_way",
    "check_puts_with_signals",
)
"""The same of one-sided operations in compiled code."""
OF_SIGNALS = (
    "check_copies_with_signals",
    "check_copies_with_signals_to_ranks_that_wait_for_others",
    "check_many_copies_with_signals",
    "check_ranks_that_wait_in_compiled_code_apply_puts",
    "check_sums_of_all_kinds",
    "check_segments_with_copies_on_the_way_come_and_go",
)
"""The same of copies that raise signals."""


def check_each_rank_has_a_host_of_its_own():
    assert world.size == 2
    assert len(set(world.allgather(socket.gethostname()))) == 2
    assert world.node.size == 1
    assert world.node_count == 2
    assert [world.node_of(rank) for rank in range(2)] == [0, 1]
    assert world.leaders.size == 2


if __name__ == "__main__":
    sources = (
        (window_checks, SHARED),
        (pool_checks, OF_POOLS),
        (remote_channel_checks, OF_CHANNELS),
        (remote_task_checks, OF_TASKS),
        (compiled_rma_checks, OF_COMPILED_CODE),
        (synchronisation_checks, OF_SIGNALS),
    )
    run_checks(globals() | {name: getattr(module, name) for module, names in sources for name in names})
