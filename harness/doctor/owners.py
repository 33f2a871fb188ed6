"""Does another program hold the GPU's counters?"""

from __future__ import annotations

from rooflens.harness.doctor.surroundings import Surroundings
from rooflens.model import Check


def counter_owner(found: Surroundings) -> Check | None:
    """DCGM and Nsight lock the same driver resource, system wide."""
    if not found.gpus and not found.counter_owners:
        return None
    if found.counter_owners:
        names = ", ".join(found.counter_owners)
        return Check(
            id="counter-owner",
            outcome="warning",
            message=f"{names} is running and may hold the counters.",
            fix="dcgmi profile --pause, and dcgmi profile --resume when you are done.",
        )
    return Check(
        id="counter-owner",
        outcome="passed",
        message="No DCGM was seen (one outside this container would not show).",
    )
