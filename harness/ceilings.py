"""This machine's own ceilings, measured by a short read, copy and matrix-product probe.

The probe takes about a second and is kept per machine in the user's cache directory, so that two
runs of one day are judged against the same roof. A data sheet says what a chip could do; these say
what torch reaches here, and are therefore the fairer floor for a CPU.
"""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rooflens.harness import machine
from rooflens.model import Roof
from rooflens.quantity import Record

if TYPE_CHECKING:
    import torch

FORMAT = 1
PROBE_SECONDS = 0.1
"""How long one probe repeats; the best repetition counts, because other programs only slow it."""
MIN_REPEATS = 3
MAX_PROBES = 3
UNDISTURBED_SHARE = 0.9
"""A CPU probe that got less of its cores than this is probed again by the next run."""
CACHE_MULTIPLE = 4
"""The bandwidth buffer is this many last-level caches, so that it cannot be served from there."""
MIN_BUFFER_BYTES = 256 << 20
MAX_BUFFER_BYTES = 1 << 30
CUDA_BUFFER_BYTES = 1 << 30
CPU_SIDES = (256, 512, 1024, 2048)
CUDA_SIDES = (2048, 4096, 8192)
SLOW_GEMM_S = 0.05
"""Larger matrices are not tried once a product takes this long."""


class Ceilings(Record, frozen=True, kw_only=True):
    """What the probe reached on one machine."""

    name: str
    bandwidth_bytes_per_s: float
    peak_flops_per_s: dict[str, float]
    """By torch dtype name."""
    buffer_bytes: int
    cache_bytes: int | None
    probed_at: str
    """UTC, ISO 8601."""
    core_share: float = 1.0
    """Processor time that the bandwidth probe got, of what its threads could have had."""

    def roof(self, dtype: str) -> Roof | None:
        """The roof for products in `dtype`, or None when the probe could not run that dtype."""
        peak = self.peak_flops_per_s.get(dtype)
        if peak is None:
            return None
        return Roof(
            name=self.name,
            kind="measured",
            peak_flops_per_s=peak,
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s,
            dtype=dtype,
            source=(
                f"read and copy of {self.buffer_bytes >> 20} MiB and a {dtype} matrix product, "
                f"probed here on {self.probed_at[:10]}"
            ),
            l2_bytes=self.cache_bytes,
        )

    @property
    def disturbed(self) -> bool:
        """Other programs took so much of the processor that the probe is too low."""
        return self.core_share < UNDISTURBED_SHARE

    def age_days(self, now: datetime) -> float:
        """Days since the probe."""
        return (now - datetime.fromisoformat(self.probed_at)).total_seconds() / 86400


def measured_ceilings(dtype: str, device: str = "cpu", *, refresh: bool = False) -> Ceilings | None:
    """Return the ceilings of `device` (`cpu` or `cuda`), probing what the cache does not hold.

    None when a probe gave an impossible result: no roof is better than a wrong one.
    """
    file = cache_file(device)
    kept = None if refresh else _load(file)
    if kept is not None and not kept.disturbed and dtype in kept.peak_flops_per_s:
        return kept
    disturbed = kept is not None and kept.disturbed
    made = _probe(dtype, device, None if disturbed else kept)
    if kept is not None and disturbed:
        made = _better(kept, made)
    if made is not None:
        _store(file, made)
    return made


def raise_ceilings(dtype: str, device: str = "cpu") -> Ceilings | None:
    """Probe again and keep the better of both, for a step that was faster than the ceilings allow.

    Other programs only ever slow a probe, so the higher result is the nearer one.
    """
    file = cache_file(device)
    best = _load(file)
    for _ in range(MAX_PROBES):
        made = _probe(dtype, device, None)
        best = made if best is None else _better(best, made)
        if made is not None and not made.disturbed:
            break
    if best is not None:
        _store(file, best)
    return best


def measured_roof(dtype: str, device: str = "cpu", *, refresh: bool = False) -> Roof | None:
    """Return the measured roof of `device` for `dtype`, or None when it cannot be had."""
    found = measured_ceilings(dtype, device, refresh=refresh)
    return found.roof(dtype) if found else None


def is_cached(dtype: str, device: str = "cpu") -> bool:
    """Whether `measured_ceilings` would answer without a probe."""
    kept = _load(cache_file(device))
    return kept is not None and not kept.disturbed and dtype in kept.peak_flops_per_s


def cache_file(device: str) -> Path | None:
    """Where the ceilings of this machine and torch version are kept; None without a home."""
    from importlib import metadata

    home = machine.home_folder()
    base = os.environ.get("XDG_CACHE_HOME") or (home / ".cache" if home else None)
    if base is None:
        return None

    identity = (machine.cpu_model(), str(machine.core_count()), metadata.version("torch"), device)
    key = hashlib.sha256("\n".join((*identity, _gpu_name(device))).encode()).hexdigest()[:16]
    return Path(base) / "rooflens" / f"ceilings-{FORMAT}-{key}.json"


def _gpu_name(device: str) -> str:
    if device != "cuda":
        return ""
    import torch

    return torch.cuda.get_device_name()


def _load(file: Path | None) -> Ceilings | None:
    """The kept ceilings; a missing, damaged or impossible file is simply probed again."""
    if file is None:
        return None
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=Ceilings)
        datetime.fromisoformat(kept.probed_at)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    rates = (kept.bandwidth_bytes_per_s, *kept.peak_flops_per_s.values())
    return kept if all(_possible(rate) for rate in rates) else None


def _store(file: Path | None, ceilings: Ceilings) -> None:
    """Keep the ceilings; where the cache cannot be written the next run probes again."""
    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(prefix=file.name, dir=file.parent)
        with os.fdopen(descriptor, "wb") as out:
            out.write(msgspec.json.encode(ceilings))
        Path(scratch).replace(file)
    except OSError:
        return


def _probe(dtype: str, device: str, kept: Ceilings | None) -> Ceilings | None:
    """Probe what `kept` lacks; None when it gave nothing usable or memory did not suffice."""
    import torch

    try:
        return _probed(dtype, device, kept)
    except RuntimeError:  # torch's out-of-memory errors are among these
        return None
    finally:
        if device == "cuda":
            torch.cuda.empty_cache()


def _probed(dtype: str, device: str, kept: Ceilings | None) -> Ceilings | None:
    import torch

    with torch.no_grad():
        peaks = dict(kept.peak_flops_per_s) if kept else {}
        # float32 is always probed: it tells whether the CPU is slow at the model's dtype.
        for name in {dtype, "float32"} - peaks.keys():
            peak = _peak_flops_per_s(getattr(torch, name), device)
            if peak is not None:
                peaks[name] = peak
        buffer_bytes = kept.buffer_bytes if kept else _buffer_bytes(device)
        bandwidth: float | None
        if kept:
            bandwidth, share = kept.bandwidth_bytes_per_s, kept.core_share
        else:
            buffer = torch.ones(buffer_bytes // 4, dtype=torch.float32, device=device)
            bandwidth, share = _with_core_share(partial(_bandwidth_bytes_per_s, buffer), device)
    if bandwidth is None or dtype not in peaks:
        return None
    facts = machine.machine_facts(device)
    return Ceilings(
        name=facts.gpu or f"{facts.cores}-core CPU",
        bandwidth_bytes_per_s=bandwidth,
        peak_flops_per_s=peaks,
        buffer_bytes=buffer_bytes,
        cache_bytes=facts.last_level_cache_bytes,
        probed_at=datetime.now(UTC).isoformat(timespec="seconds"),
        core_share=share,
    )


def _better(kept: Ceilings, made: Ceilings | None) -> Ceilings:
    """The higher ceilings of two probes of one machine: disturbance only lowers them."""
    if made is None:
        return kept
    names = kept.peak_flops_per_s.keys() | made.peak_flops_per_s.keys()
    return msgspec.structs.replace(
        made,
        bandwidth_bytes_per_s=max(kept.bandwidth_bytes_per_s, made.bandwidth_bytes_per_s),
        peak_flops_per_s={
            name: max(kept.peak_flops_per_s.get(name, 0), made.peak_flops_per_s.get(name, 0))
            for name in names
        },
    )


def _with_core_share(probe: Callable[[], float | None], device: str) -> tuple[float | None, float]:
    """Run a probe that keeps all of torch's threads busy, and say how much of them it got."""
    import torch

    wall, used = time.perf_counter(), time.process_time()
    result = probe()
    wall, used = time.perf_counter() - wall, time.process_time() - used
    if device == "cuda" or wall <= 0:
        return result, 1.0
    return result, min(used / (wall * torch.get_num_threads()), 1.0)


def _buffer_bytes(device: str) -> int:
    if device == "cuda":
        return CUDA_BUFFER_BYTES
    wanted = CACHE_MULTIPLE * (machine.last_level_cache_bytes() or 0)
    room = (machine.memory_available_bytes() or MAX_BUFFER_BYTES) // 4
    size = min(max(wanted, MIN_BUFFER_BYTES), MAX_BUFFER_BYTES, room)
    return size // 4096 * 4096


def _bandwidth_bytes_per_s(buffer: torch.Tensor) -> float | None:
    """The better of a pure read and a copy within one buffer (a copy reads and writes)."""
    device = buffer.device.type
    half = buffer.numel() // 2
    source, target = buffer[:half], buffer[half : 2 * half]
    read_s = _best_seconds(lambda: buffer.sum(), device)
    copy_s = _best_seconds(lambda: target.copy_(source), device)
    rates = [_rate(buffer.nbytes, read_s), _rate(2 * source.nbytes, copy_s)]
    return max((rate for rate in rates if rate is not None), default=None)


def _peak_flops_per_s(dtype: torch.dtype, device: str) -> float | None:
    """The best rate of a square product, over growing sizes; None when there is none."""
    import torch

    best: float | None = None
    for side in CUDA_SIDES if device == "cuda" else CPU_SIDES:
        try:
            left = torch.randn(side, side, device=device).to(dtype)
            right = torch.randn(side, side, device=device).to(dtype)
            seconds = _best_seconds(partial(torch.matmul, left, right), device)
        except RuntimeError:  # this dtype has no product on this device
            return best
        rate = _rate(2 * side**3, seconds)
        best = max((r for r in (best, rate) if r is not None), default=None)
        if device != "cuda" and seconds > SLOW_GEMM_S:
            break
    return best


def _best_seconds(work: Callable[[], object], device: str) -> float:
    """Shortest of several repetitions after one that is not counted."""
    wait = _synchronize(device)
    best = math.inf
    began = time.perf_counter()
    repeats = -1
    while repeats < MIN_REPEATS or time.perf_counter() - began < PROBE_SECONDS:
        start = time.perf_counter()
        work()
        wait()
        took = time.perf_counter() - start
        if repeats >= 0:
            best = min(best, took)
        repeats += 1
    return best


def _synchronize(device: str) -> Callable[[], None]:
    if device != "cuda":
        return lambda: None
    import torch

    return torch.cuda.synchronize


def _rate(amount: float, seconds: float) -> float | None:
    rate = amount / seconds if seconds > 0 else math.inf
    return rate if _possible(rate) else None


def _possible(rate: float) -> bool:
    return math.isfinite(rate) and rate > 0
