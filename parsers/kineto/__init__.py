"""Reading torch.profiler's Chrome traces (Kineto) without holding them in memory."""
