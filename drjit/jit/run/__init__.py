"""Execution: from pending values to finished ones by way of the schedule, the choice and cache of
kernels, jobs, threads and memory."""
