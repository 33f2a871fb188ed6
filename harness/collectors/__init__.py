"""Add one evidence level to a run: timeline (nsys or torch's profiler), counters (ncu)."""
