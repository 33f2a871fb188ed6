"""R37: the cache served an operator, so its DRAM bytes say little."""

from __future__ import annotations

from rooflens.model import OperatorRow
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import L2_RESIDENT_MAX, THIN_BYTES_MIN
from rooflens.reports.format import bytes_text, percent_text, plural


def _share(row: OperatorRow) -> float | None:
    """Moved over minimum bytes of one operator class."""
    moved, minimum = row.moved_bytes.value, row.minimum_bytes.value
    if row.part is not None or moved is None or not minimum:
        return None
    return moved / minimum if minimum >= THIN_BYTES_MIN.value else None


def detect(evidence: Evidence) -> Answer:
    shares = {
        row.op_class: (share, row)
        for row in evidence.operators
        if (share := _share(row)) is not None
    }
    if not shares:
        return CannotLook("no operator has moved bytes beside its minimum")
    served = {name: item for name, item in shares.items() if item[0] < L2_RESIDENT_MAX.value}
    if not served:
        return None
    return Claim(
        title=f"L2 served {plural(len(served), 'operator class', 'operator classes')}: fewer bytes "
        "moved than the operator must read",
        no_bytes="nothing is wasted; byte savings of these operators are smaller than requested",
        confidence="medium",
        confidence_reason="moved bytes below the minimum are only possible out of a cache (or when "
        "kernels are missing from the capture)",
        evidence=tuple(
            f"{name}: {bytes_text(row.moved_bytes.value or 0)} moved, "
            f"{percent_text(share)} of the minimum"
            for name, (share, row) in list(served.items())[:6]
        ),
    )


RULE = Rule(
    id="R37-l2-resident",
    needs=("kernels",),
    looks_for="operators whose moved bytes are below their minimum: L2 held them",
    clear="Operators move at least what they must read",
    why=(
        "When tensors stay in L2 between kernels, DRAM does not see them. Then a saving of "
        "requested bytes is no saving of DRAM time, and shares of the DRAM roof mislead."
    ),
    remedy="Judge these operators by time; measure with --cache-control none and with flush",
    fixed_in="no version",
    example="attention at 512 keys: 2 MB of K and V, all of it in a 50 MB L2",
    thresholds=(L2_RESIDENT_MAX, THIN_BYTES_MIN),
    detect=detect,
)
