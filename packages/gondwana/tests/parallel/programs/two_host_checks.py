"""What must hold between two ranks on two hosts, where bytes travel through a network and never through memory."""

from __future__ import annotations

import socket

import active_message_checks
import collective_checks
import compiled_rma_checks
import device_atomic_checks
import device_collective_checks
import pool_checks
import remote_channel_checks
import remote_task_checks
import synchronisation_checks
import team_checks
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
    "check_payloads_of_any_size_arrive_once",
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
OF_TEAMS = (
    "check_ranks_that_disagree_on_sharing_are_told",
    "check_split",
    "check_teams_of_the_same_ranks_are_apart",
)
"""The same of teams."""
OF_COLLECTIVES = (
    "check_a_late_rank_is_served",
    "check_every_array_can_be_broadcast",
    "check_few_elements_are_combined_in_the_order_of_the_ranks",
    "check_objects_of_any_length",
)
"""The same of collectives."""
OF_SIGNALS = (
    "check_ring_of_signals",
    "check_ring_of_signals_in_compiled_code",
    "check_signals_that_nobody_waits_for_yet",
    "check_litmus_of_producer_and_consumer",
    "check_copies_with_signals",
    "check_copies_with_signals_to_ranks_that_wait_for_others",
    "check_many_copies_with_signals",
    "check_ranks_that_wait_in_compiled_code_apply_puts",
    "check_sums_of_all_kinds",
    "check_segments_with_copies_on_the_way_come_and_go",
)
"""The same of copies that raise signals."""
OF_MESSAGES = (
    "check_flood_from_compiled_code",
    "check_payloads_from_compiled_code",
    "check_replies_with_payloads",
    "check_round_trips_in_compiled_code",
    "check_the_longest_payloads_in_a_circle",
    "check_what_could_not_leave_at_once_leaves_during_a_wait",
)
"""The same of active messages."""

OF_ATOMICS_ON_DEVICES = (
    "check_batches_on_device_words",
    "check_device_tickets_are_a_permutation",
    "check_loops_of_compare_and_swap_on_device_words",
)
"""The same of atomic operations on device memory."""
OF_COLLECTIVES_ON_DEVICES = (
    "check_broadcasts",
    "check_buffers_on_both_sides",
    "check_requests_complete_when_the_device_has_the_data",
)
"""The same of collectives on device memory."""


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
        (team_checks, OF_TEAMS),
        (active_message_checks, OF_MESSAGES),
        (collective_checks, OF_COLLECTIVES),
        (device_atomic_checks, OF_ATOMICS_ON_DEVICES),
        (device_collective_checks, OF_COLLECTIVES_ON_DEVICES),
    )
    run_checks(globals() | {name: getattr(module, name) for module, names in sources for name in names})
