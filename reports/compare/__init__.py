"""Compares two runs: matching, verdicts, gates."""
