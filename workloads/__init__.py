"""What is run: declared workloads, models and weights, NVTX annotation."""
