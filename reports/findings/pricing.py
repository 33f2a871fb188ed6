"""Turns claims into findings with a price: shares overlaps, keeps the sum below the gap.

Bytes: an op's requested bytes go to the first claim in catalogue order. Time: bytes at the roof's
bandwidth (or FLOPs at its peak, where they outweigh the bytes); the low end counts only tensors
larger than the last-level cache, since smaller ones may never have reached memory. Where counters
were joined to every op of a claim, both ends use the moved bytes instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rooflens.model import Finding, Op, Roof, Run, TimeRange, absent, known
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.rule import Claim, Rule
from rooflens.reports.format import bandwidth_text, bytes_text, time_text
from rooflens.units import NS_PER_S


@dataclass(frozen=True)
class Limit:
    """The gap of the run: no sum of savings may exceed it. None where it is unknown."""

    bytes: float | None
    time_ns: float | None

    @classmethod
    def of(cls, run: Run) -> Limit:
        """Requested - compulsory bytes, and (on the device that was measured) time - floor."""
        totals = run.totals
        requested, compulsory = totals.requested_bytes.value, totals.compulsory_bytes.value
        step, floor = totals.step_time_ns.value, totals.floor_ns.value
        comparable = bool(run.roofs) and not run.roofs[0].prediction
        return cls(
            None if requested is None or compulsory is None else max(0, requested - compulsory),
            None if step is None or floor is None or not comparable else max(0, step - floor),
        )


@dataclass
class _Share:
    """What one claim is left with after earlier claims took theirs."""

    saved: dict[int, float] = field(default_factory=dict)
    kernel_bytes: dict[int, float] = field(default_factory=dict)
    kernel_ns: dict[int, tuple[float, float]] = field(default_factory=dict)
    consumers: float = 0
    notes: list[str] = field(default_factory=list)

    @property
    def bytes(self) -> float:
        return sum(self.saved.values()) + sum(self.kernel_bytes.values())


def price(claims: Sequence[tuple[Rule, Claim]], evidence: Evidence, limit: Limit) -> list[Finding]:
    """The findings of the claims, which stand in catalogue order."""
    shares = _share(claims, evidence, limit)
    times = [
        _time(claim, share, evidence) for (_, claim), share in zip(claims, shares, strict=True)
    ]
    times = _limited(times, shares, limit.time_ns)
    return [
        _finding(rule, claim, share, time, evidence)
        for (rule, claim), share, time in zip(claims, shares, times, strict=True)
    ]


def _share(claims: Sequence[tuple[Rule, Claim]], evidence: Evidence, limit: Limit) -> list[_Share]:
    op_left: dict[int, float] = {op.index: op.bytes_in + op.bytes_out for op in evidence.ops}
    byte_left: dict[int, float] = {}
    ns_left: dict[int, float] = {}
    gap_left = limit.bytes
    owners: dict[int, str] = {}
    shares = []
    for rule, claim in claims:
        share = _Share()
        wanted = sum(claim.saved.values())
        share.saved = _take(claim.saved, op_left)
        for row, amount in claim.kernel_bytes.items():
            byte_left.setdefault(row, _row_total(evidence, row, "dram_bytes"))
            share.kernel_bytes.update(_take({row: amount}, byte_left))
        for row, (low, high) in claim.kernel_ns.items():
            ns_left.setdefault(row, _row_total(evidence, row, "duration_ns"))
            granted = _take({row: high}, ns_left)[row]
            share.kernel_ns[row] = (min(low, granted), granted)
        taken = sum(share.saved.values())
        if taken < wanted:
            earlier = ", ".join(sorted({owners[i] for i in claim.saved if i in owners}))
            share.notes.append(
                f"{bytes_text(wanted - taken)} of it stand under an earlier finding ({earlier})"
            )
        if gap_left is not None and share.saved:
            if taken > gap_left:
                factor = gap_left / taken
                share.saved = {index: amount * factor for index, amount in share.saved.items()}
                share.notes.append("cut so that all savings fit into the gap")
            gap_left -= sum(share.saved.values())
        for index in claim.saved:
            owners.setdefault(index, rule.number)
        shares.append(share)
    for (_, claim), share in zip(claims, shares, strict=True):
        share.consumers = sum(_take(claim.consumers, op_left).values())
    return shares


def _take(wanted: Mapping[int, float], left: dict[int, float]) -> dict[int, float]:
    """Grant each amount up to what is left, and lower what is left."""
    granted = {}
    for key, amount in wanted.items():
        granted[key] = max(0, min(amount, left.get(key, 0)))
        left[key] = left.get(key, 0) - granted[key]
    return granted


def _row_total(evidence: Evidence, row: int, name: str) -> float:
    kernel = evidence.kernels[row]
    value = (kernel.dram_bytes if name == "dram_bytes" else kernel.duration_ns).value
    return (value or 0) * kernel.count


def _time(claim: Claim, share: _Share, evidence: Evidence) -> TimeRange | None:
    low = sum(span[0] for span in share.kernel_ns.values())
    high = sum(span[1] for span in share.kernel_ns.values())
    known_time = bool(share.kernel_ns)
    if claim.idle_ns is not None:
        high, known_time = high + claim.idle_ns, True
    roof = evidence.roof
    if roof is not None and (share.saved or share.kernel_bytes or claim.saved_flops):
        flops_ns = claim.saved_flops / roof.peak_flops_per_s * NS_PER_S
        low_bytes, high_bytes = _byte_range(share, evidence, roof)
        bandwidth = roof.bandwidth_bytes_per_s / NS_PER_S
        low += max(low_bytes / bandwidth, flops_ns)
        high += max(high_bytes / bandwidth, flops_ns)
        known_time = True
    return TimeRange(low=low, high=high) if known_time else None


def _byte_range(share: _Share, evidence: Evidence, roof: Roof) -> tuple[float, float]:
    moved = _moved(share, evidence)
    if moved is not None:
        return moved, moved
    from_kernels = sum(share.kernel_bytes.values())
    cache = roof.l2_bytes
    if cache is None and not roof.prediction:  # another machine's cache says nothing
        cache = evidence.machine.last_level_cache_bytes
    ops = {op.index: op for op in evidence.ops}
    # Without a known cache any tensor may have stayed in it: the lower end is then nothing.
    large = (
        0.0
        if cache is None
        else sum(
            amount * _large_part(ops[index], cache)
            for index, amount in share.saved.items()
            if index in ops
        )
    )
    return large + from_kernels, sum(share.saved.values()) + from_kernels


def _large_part(op: Op, cache_bytes: int) -> float:
    """The share of an op's bytes that belongs to tensors larger than the cache."""
    sizes = [tensor.bytes for tensor in (*op.inputs, *op.outputs)]
    total = sum(sizes)
    return sum(size for size in sizes if size > cache_bytes) / total if total else 0.0


def _moved(share: _Share, evidence: Evidence) -> float | None:
    """Moved bytes of the saved ops, where counters were joined to every one of them."""
    if not share.saved or not evidence.moved_by_op:
        return None
    ops = {op.index: op for op in evidence.ops}
    moved = 0.0
    for index, amount in share.saved.items():
        if index not in evidence.moved_by_op:
            return None
        requested = ops[index].bytes_in + ops[index].bytes_out
        moved += evidence.moved_by_op[index] * (amount / requested if requested else 0)
    return moved


def _limited(
    times: list[TimeRange | None], shares: list[_Share], gap_ns: float | None
) -> list[TimeRange | None]:
    """Scale all times down together when their sum exceeds the gap of the step."""
    total = sum(time.high for time in times if time is not None)
    if gap_ns is None or total <= gap_ns:
        return times
    factor = gap_ns / total
    for time, share in zip(times, shares, strict=True):
        if time is not None:
            share.notes.append("times scaled so that all savings fit into the step's gap")
    return [
        None if time is None else TimeRange(low=time.low * factor, high=time.high * factor)
        for time in times
    ]


def _note(claim: Claim, share: _Share, time: TimeRange | None, evidence: Evidence) -> str:
    roof = evidence.roof
    parts = list(share.notes)
    if roof is not None and time is not None and (share.saved or share.kernel_bytes):
        kind = "predicted, " if roof.prediction else ""
        parts.insert(
            0, f"{kind}at {bandwidth_text(roof.bandwidth_bytes_per_s)} ({roof.name}, {roof.kind})"
        )
        if claim.saved_flops and time.low > 0:
            flops_ns = claim.saved_flops / roof.peak_flops_per_s * NS_PER_S
            parts.append(f"the saved FLOPs alone take {time_text(flops_ns)} at its peak")
    elif time is None and claim.saved:
        parts.insert(0, "no time: the run has no roof (--gpu NAME gives one)")
    return "; ".join(parts)


def _finding(
    rule: Rule, claim: Claim, share: _Share, time: TimeRange | None, evidence: Evidence
) -> Finding:
    position = {op.index: place for place, op in enumerate(evidence.ops)}
    touched = {*claim.saved, *claim.consumers, *claim.ops}
    if claim.saved or claim.kernel_bytes:
        saving = known(_whole(share.bytes), "byte", "counted" if claim.saved else "counters")
        consumers = known(_whole(share.consumers), "byte", "counted")
    else:
        saving = absent(claim.no_bytes or "this finding has no saving in bytes")
        consumers = saving
    return Finding(
        rule=rule.id,
        outcome="found",
        title=claim.title,
        saving_bytes=saving,
        consumer_bytes=consumers,
        saving_ns=time,
        saving_note=_note(claim, share, time, evidence),
        confidence=claim.confidence,
        confidence_reason=claim.confidence_reason,
        why=rule.why,
        remedy=claim.remedy or rule.remedy,
        evidence=claim.evidence,
        ops=tuple(sorted(position[index] for index in touched if index in position)),
        kernels=tuple(sorted({*claim.kernels, *claim.kernel_bytes, *claim.kernel_ns})),
    )


def _whole(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value
