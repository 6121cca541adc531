"""Watching a job: the watchdogs of its ranks with their connections, and the lifeline to the launcher."""
