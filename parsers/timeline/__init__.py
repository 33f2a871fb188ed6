"""A timeline capture of any tool, as columns, and the arithmetic on it."""
