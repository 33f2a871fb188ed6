"""Joins recorded ops, kernels and theory into operator rows."""
