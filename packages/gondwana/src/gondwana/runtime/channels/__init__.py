"""Connections between the watchdogs of a job, which no process outside the job can join."""
