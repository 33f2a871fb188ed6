"""Whose roof a run is judged by: the GPU that was named, else the device that the step runs on."""

from __future__ import annotations

from datetime import UTC, datetime

from rooflens.errors import UsageError
from rooflens.harness.ceilings import Ceilings, is_cached, measured_ceilings, raise_ceilings
from rooflens.harness.plan import RunPlan
from rooflens.harness.progress import Progress
from rooflens.model import Check, Roof
from rooflens.quantity import Record
from rooflens.reports.format import bandwidth_text, flop_rate_text, plural, ratio_text
from rooflens.reports.theory.floor import step_floor_ns
from rooflens.reports.theory.gpus import Gpu, gpu

PROBE_S = 1.5
OLD_DAYS = 30
SLOW_DTYPE = 0.75
"""A CPU whose products in the model's dtype reach less than this share of float32 gets a hint."""


class Roofs(Record, frozen=True, kw_only=True):
    """The roofs of a run; floors use the first of `all`."""

    all: tuple[Roof, ...] = ()
    here: Roof | None = None
    """Measured on the device that the step runs on."""
    checks: tuple[Check, ...] = ()


def choose_roofs(plan: RunPlan, progress: Progress) -> Roofs:
    """Decide the roofs of a plan, probing this machine's ceilings where they are not cached."""
    if plan.device == "meta":
        return Roofs(all=(plan.gpu.roof(plan.dtype),) if plan.gpu else ())
    ceilings = _ceilings(plan, progress)
    here = ceilings.roof(plan.dtype) if ceilings else None
    sheet = _data_sheet(plan)
    checks = _ceiling_checks(plan, ceilings)
    hint = next((check for check in checks if check.id == "dtype-speed"), None)
    if hint is not None:
        progress.note(f"Hint: {hint.message} {hint.fix}")
    return Roofs(
        all=tuple(roof for roof in (sheet, here) if roof is not None), here=here, checks=checks
    )


def raise_if_beaten(
    plan: RunPlan, roofs: Roofs, step_ns: float | None, progress: Progress
) -> Roofs:
    """Probe the ceilings again when the step beat the floor that they give.

    The first probe was then disturbed; a step that still beats its floor fails a check.
    """
    roof = roofs.all[0] if roofs.all else None
    if roof is None or step_ns is None or roof is not roofs.here:
        return roofs
    if step_ns >= step_floor_ns(plan.theory, roof):
        return roofs
    with progress.stage("Probing the ceilings again: the step was faster than they allow", PROBE_S):
        ceilings = raise_ceilings(plan.dtype, plan.device)
    here = ceilings.roof(plan.dtype) if ceilings else None
    if here is None:
        return roofs
    return Roofs(all=(here,), here=here, checks=_ceiling_checks(plan, ceilings))


def _ceilings(plan: RunPlan, progress: Progress) -> Ceilings | None:
    refresh = plan.options.refresh_ceilings
    if not refresh and is_cached(plan.dtype, plan.device):
        return measured_ceilings(plan.dtype, plan.device)
    with progress.stage("Probing this machine's ceilings (kept for the next run)", PROBE_S):
        return measured_ceilings(plan.dtype, plan.device, refresh=refresh)


def _data_sheet(plan: RunPlan) -> Roof | None:
    """The data sheet of the named GPU, or of this GPU where we know it."""
    own = _this_gpu() if plan.device == "cuda" else None
    if plan.gpu is not None:
        same = own is not None and own.name == plan.gpu.name
        return plan.gpu.roof(plan.dtype, prediction=not same)
    if own is None:
        return None
    try:
        return own.roof(plan.dtype, prediction=False)
    except UsageError:  # this GPU has no units for the dtype; its measured ceiling remains
        return None


def _this_gpu() -> Gpu | None:
    import torch

    try:
        return gpu(torch.cuda.get_device_name())
    except UsageError:
        return None


def _ceiling_checks(plan: RunPlan, ceilings: Ceilings | None) -> tuple[Check, ...]:
    again = "Use --refresh-ceilings to probe again, on an idle machine."
    if ceilings is None or (roof := ceilings.roof(plan.dtype)) is None:
        message = f"The ceilings of this machine could not be probed for {plan.dtype}."
        return (Check(id="ceilings", outcome="could_not_look", message=message, fix=again),)
    days = ceilings.age_days(datetime.now(UTC))
    message = (
        f"This machine's ceilings: {bandwidth_text(roof.bandwidth_bytes_per_s)} and "
        f"{flop_rate_text(roof.peak_flops_per_s)} in {plan.dtype}, "
        f"probed {_ago(days)}."
    )
    age = Check(id="ceilings", outcome="passed", message=message)
    if ceilings.disturbed:
        message = f"{message[:-1]}, while other programs ran: they may be too low."
    if ceilings.disturbed or days > OLD_DAYS:
        age = Check(id="ceilings", outcome="warning", message=message, fix=again)
    return (age, *_slow_dtype(plan, ceilings))


def _ago(days: float) -> str:
    return "today" if days < 1 else f"{plural(int(days), 'day')} ago"


def _slow_dtype(plan: RunPlan, ceilings: Ceilings) -> tuple[Check, ...]:
    """CPUs without AMX or AVX512-BF16 multiply bfloat16 many times slower than float32."""
    full = ceilings.peak_flops_per_s.get("float32")
    peak = ceilings.peak_flops_per_s.get(plan.dtype)
    if plan.device != "cpu" or full is None or peak is None or peak >= SLOW_DTYPE * full:
        return ()
    return (
        Check(
            id="dtype-speed",
            outcome="warning",
            message=f"{plan.dtype} products run {ratio_text(full / peak)} slower than float32.",
            fix="--dtype float32 runs faster here (and counts twice the bytes).",
        ),
    )
