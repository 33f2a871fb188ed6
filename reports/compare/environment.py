"""Compare two environments before anything else: which differences forbid which comparison.

docs/comparing.md has the table. In short: another workload, model, shape, dtype or GPU forbids
everything; another driver or clock forbids times; another cache regime of a counter capture forbids
moved bytes; versions of torch and other tools are what people compare, so they forbid nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.model import Run
from rooflens.reports.compare.records import EVERYTHING, Aspect, Difference

CLOCK_TOLERANCE = 0.05
"""Relative difference of SM clocks from which on times are not compared (rule R38)."""

_TIMES = (Aspect.TIME,)
_MEASURED = (Aspect.MOVED, Aspect.KERNELS, Aspect.TIME)
_SAME_WORK = "the two sides do different work"

_WORKLOAD: tuple[tuple[str, str], ...] = (
    ("name", "workload"), ("version", "workload version"), ("batch", "batch"),
    ("context", "context"), ("prompt", "prompt"), ("query_tokens", "new tokens"),
    ("logits", "logits"), ("dtype", "dtype"), ("layers_model", "layers of the model"),
)  # fmt: skip


def differences(base: Sequence[Run], head: Sequence[Run]) -> tuple[Difference, ...]:
    """Everything that differs between (or within) the sides, most restrictive first."""
    found: dict[str, Difference] = {}
    first = base[0]
    for run in (*base[1:], *head):
        for difference in _pair(first, run):
            found.setdefault(difference.name, difference)
    return tuple(sorted(found.values(), key=lambda item: -len(item.forbids)))


def forbidden(found: Sequence[Difference], aspect: Aspect) -> str:
    """Why `aspect` must not be compared, or an empty string."""
    because: dict[str, list[str]] = {}
    for item in found:
        if aspect in item.forbids:
            because.setdefault("" if item.is_failure else item.reason, []).append(_fact(item))
    return "; ".join(
        "; ".join(facts) + (f" ({reason})" if reason else "") for reason, facts in because.items()
    )


def failures(found: Sequence[Difference]) -> str:
    """Which side's own evidence is bad and why, or an empty string."""
    return "; ".join(_fact(item) for item in found if item.is_failure)


def _fact(item: Difference) -> str:
    if item.is_failure:
        return f"{item.name} failed: {item.reason}"
    return f"{item.name}: {item.base or 'unknown'} against {item.head or 'unknown'}"


def _pair(base: Run, head: Run) -> list[Difference]:
    return [
        *_schema(base, head),
        *_work(base, head),
        *_model(base, head),
        *_device(base, head),
        *_clocks(base, head),
        *_regimes(base, head),
        *_checks(base, head),
        *_told(base, head),
    ]


def _schema(base: Run, head: Run) -> list[Difference]:
    if base.schema_version == head.schema_version:
        return []
    return [
        Difference(
            name="schema version",
            base=str(base.schema_version),
            head=str(head.schema_version),
            forbids=EVERYTHING,
            reason="numbers of different schema versions need not mean the same",
        )
    ]


def _work(base: Run, head: Run) -> list[Difference]:
    found = []
    for field, name in _WORKLOAD:
        one, other = getattr(base.workload, field), getattr(head.workload, field)
        if (_empty(one) and _empty(other)) or one == other:
            continue
        if _empty(one) or _empty(other):
            found.append(Difference(name=name, base=_text(one), head=_text(other)))
            continue
        found.append(
            Difference(
                name=name, base=str(one), head=str(other), forbids=EVERYTHING, reason=_SAME_WORK
            )
        )
    if base.workload.layers_run != head.workload.layers_run:
        found.append(
            Difference(
                name="layers that ran",
                base=_text(base.workload.layers_run),
                head=_text(head.workload.layers_run),
                forbids=(Aspect.MOVED, Aspect.TIME),
                reason="measured on different layers",
            )
        )
    return found


def _model(base: Run, head: Run) -> list[Difference]:
    found = []
    one, other = base.model, head.model
    if one.params is not None and other.params is not None and one.params != other.params:
        found.append(
            Difference(
                name="parameters of the model",
                base=f"{one.params:,}",
                head=f"{other.params:,}",
                forbids=EVERYTHING,
                reason=_SAME_WORK,
            )
        )
    for key in sorted(set(one.config) & set(other.config)):
        if one.config[key] != other.config[key]:
            found.append(
                Difference(
                    name=f"model config {key}",
                    base=str(one.config[key]),
                    head=str(other.config[key]),
                    forbids=EVERYTHING,
                    reason=_SAME_WORK,
                )
            )
    return found


def _device(base: Run, head: Run) -> list[Difference]:
    one, other = base.machine, head.machine
    found = []
    if one.gpu != other.gpu:
        found.append(
            Difference(
                name="GPU",
                base=one.gpu or "none",
                head=other.gpu or "none",
                forbids=EVERYTHING,
                reason="another GPU runs other kernels at another speed",
            )
        )
    elif one.device != other.device:
        found.append(
            Difference(
                name="device",
                base=one.device,
                head=other.device,
                forbids=_MEASURED,
                reason="only counted evidence means the same on both",
            )
        )
    for field, name in (("driver", "driver"), ("cpu", "CPU"), ("cores", "CPU cores"),
                        ("gpu_count", "GPUs")):  # fmt: skip
        here, there = getattr(one, field), getattr(other, field)
        if here != there and not (_empty(here) or _empty(there)):
            found.append(
                Difference(
                    name=name,
                    base=str(here),
                    head=str(there),
                    forbids=_TIMES,
                    reason="its effect on times cannot be told from the change's",
                )
            )
    return found


def _clocks(base: Run, head: Run) -> list[Difference]:
    found = []
    for field, name in (("sm_clock_hz", "SM clock"), ("memory_clock_hz", "memory clock")):
        one, other = getattr(base.machine, field), getattr(head.machine, field)
        if not one or not other:
            continue
        if abs(other / one - 1) > CLOCK_TOLERANCE:
            found.append(
                Difference(
                    name=name,
                    base=f"{one / 1e6:.0f} MHz",
                    head=f"{other / 1e6:.0f} MHz",
                    forbids=_TIMES,
                    reason="the clock explains times; bytes do not depend on it",
                )
            )
    return found


def _regimes(base: Run, head: Run) -> list[Difference]:
    """Differences of how counter captures were taken (cache control, replay mode)."""
    found = []
    for word, aspects, reason in (
        ("cache", (Aspect.MOVED,), "a flushed cache moves more bytes than a warm one"),
        ("replay", (Aspect.MOVED,), "what is replayed together shares the cache"),
    ):
        one, other = _regime(base, word), _regime(head, word)
        if one and other and one != other:
            found.append(
                Difference(
                    name=f"{word} regime of the capture",
                    base=one,
                    head=other,
                    forbids=aspects,
                    reason=reason,
                )
            )
    return found


def _regime(run: Run, word: str) -> str:
    values = {
        value
        for capture in run.captures
        for key, value in capture.regime.items()
        if word in key.lower()
    }
    return ", ".join(sorted(values))


def _checks(base: Run, head: Run) -> list[Difference]:
    """A capture that failed its own checks gives no verdict (rule R36)."""
    found = []
    for run, side in ((base, "base"), (head, "head")):
        failed = [check for check in run.checks if check.outcome == "failed"]
        if failed and set(run.evidence) & {"counters", "timeline"}:
            here, there = ("failed", "–") if side == "base" else ("–", "failed")
            found.append(
                Difference(
                    name=f"check {failed[0].id} of the {side}",
                    base=here,
                    head=there,
                    forbids=_MEASURED,
                    reason=failed[0].message.rstrip("."),
                    is_failure=True,
                )
            )
    return found


def _told(base: Run, head: Run) -> list[Difference]:
    """Differences worth knowing that forbid nothing."""
    pairs = [
        ("attention", base.workload.attention, head.workload.attention),
        ("model name", base.model.name, head.model.name),
        ("weights", base.model.weights, head.model.weights),
        ("CUDA", base.machine.cuda, head.machine.cuda),
        (
            "roof",
            base.roofs[0].name if base.roofs else "",
            head.roofs[0].name if head.roofs else "",
        ),
        ("evidence", ", ".join(base.evidence), ", ".join(head.evidence)),
    ]
    pairs += [
        (tool, base.tools.get(tool, ""), head.tools.get(tool, ""))
        for tool in sorted(set(base.tools) | set(head.tools))
    ]
    return [
        Difference(name=name, base=one, head=other) for name, one, other in pairs if one != other
    ]


def _empty(value: object) -> bool:
    return value is None or value == ""


def _text(value: object) -> str:
    return "unknown" if _empty(value) else str(value)
