"""The race detector: follows the records of all ranks of a job and reports accesses that nothing orders.

It is the process that `gondwana run` becomes where GONDWANA_CHECK=races: it starts the job, listens to its ranks, and
ends with the job. What ranks report is in `gondwana.runtime.races`.
"""
