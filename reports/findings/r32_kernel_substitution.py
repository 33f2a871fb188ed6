"""R32: an operator runs on another kernel than in the baseline."""

from __future__ import annotations

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.kernel_names import kind_of, plain_name
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import SLOWER_MIN
from rooflens.reports.format import delta_text, plural

Key = tuple[str, str]


def _families(evidence: Evidence) -> dict[Key, dict[str, list[int]]]:
    """Kernel rows by (operator class, kind), then by name."""
    found: dict[Key, dict[str, list[int]]] = {}
    for row, kernel in enumerate(evidence.kernels):
        kind = kind_of(kernel)
        if kind in {"unknown", "memcpy", "copy"}:
            continue
        names = found.setdefault((kernel.op_class, kind), {})
        names.setdefault(kernel.name, []).append(row)
    return found


def _plain(names: dict[str, list[int]]) -> dict[str, list[int]]:
    """The same rows by name without tiles and templates."""
    found: dict[str, list[int]] = {}
    for name, rows in names.items():
        found.setdefault(plain_name(name), []).extend(rows)
    return found


def detect(evidence: Evidence) -> Answer:
    base = evidence.baseline
    if base is None or not base.kernels or not evidence.kernels:
        return CannotLook("both runs need kernels")
    before, after = _families(base), _families(evidence)
    changed: list[int] = []
    lost: dict[int, tuple[float, float]] = {}
    lines = []
    for key in before.keys() & after.keys():
        if before[key].keys() == after[key].keys():
            continue
        was, now = _plain(before[key]), _plain(after[key])
        gone, new = was.keys() - now.keys(), now.keys() - was.keys()
        if not gone or not new:
            continue
        rows = [row for name in sorted(new) for row in now[name]]
        old = [row for name in sorted(gone) for row in was[name]]
        changed += rows
        slower = evidence.time_of(rows) - base.time_of(old)
        change = slower / base.time_of(old) if base.time_of(old) else 0.0
        if change > SLOWER_MIN.value:
            lost |= {row: (0.0, slower * _part(evidence, row, rows)) for row in rows}
        lines.append(
            f"{key[1]} ({key[0]}): {base.kernels[old[0]].short_name} became "
            f"{evidence.kernels[rows[0]].short_name}"
            + (f", {delta_text(change)} time" if base.time_of(old) else "")
        )
    if not changed:
        return None
    return Claim(
        title=f"Other kernels than in the baseline: {plural(len(lines), 'kind')}",
        kernel_ns=lost,
        no_bytes="another kernel for the same work: time, not requested bytes",
        confidence="high",
        confidence_reason="names are compared without templates, tiles and numbers",
        evidence=tuple(sorted(lines)[:6]),
        kernels=tuple(changed),
    )


def _part(evidence: Evidence, row: int, rows: list[int]) -> float:
    total = evidence.time_of(rows)
    return evidence.time_of([row]) / total if total else 0.0


RULE = Rule(
    id="R32-kernel-substitution",
    needs=("baseline",),
    looks_for="operators that run on another kernel family than in the baseline",
    clear="Every operator runs on the same kernel family as in the baseline",
    why=(
        "A silent change of backend is the commonest cause of a slow release, and kernel names "
        "give it away without any timing noise."
    ),
    remedy="Find the dispatch that changed (library version, shape, environment) and pin it",
    fixed_in="per library; sglang#5630: 908 against 2014 tokens/s by backend alone",
    example="flash_fwd_splitkv_kernel became fmha_cutlassF",
    limits="Tile sizes and tuning suffixes are no substitution; a faster kernel is named too.",
    thresholds=(SLOWER_MIN,),
    detect=detect,
)
