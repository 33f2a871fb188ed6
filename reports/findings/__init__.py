"""What is wrong, what it costs, how sure: one rule a file.

    from rooflens.reports.findings import find
    for finding in find(run): ...

`find_differences(base, head)` holds the rules that need two runs; `gap.py` says who has to fix
what; `directions.py` answers the five checks that people do by hand.
"""

from rooflens.reports.findings.engine import find, find_differences

__all__ = ["find", "find_differences"]
