"""From pending values to finished ones: the schedule, the choice and cache of kernels, jobs,
threads and memory."""
