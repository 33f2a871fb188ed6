"""Rooflens: which bytes and FLOPs of an LLM step did not have to happen, and what they cost."""

__version__ = "0.1.0"
