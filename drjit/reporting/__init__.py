"""Reports of what a program ran: its time, kernels, code, values of lanes and derivatives."""
