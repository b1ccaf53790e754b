"""One file, one paper: how a workload is answered with noise."""
