"""GPUs by the names people type: peaks, bandwidth and caches, each number with its source.

The table ships as gpus.toml. `~/.config/rooflens/gpus.toml` (or $XDG_CONFIG_HOME/rooflens) adds or
replaces GPUs in the same form, and `--gpu some/file.toml` reads one GPU from a file. In a user's
file a number may stand without a source; the file is then its source.
"""

from __future__ import annotations

import os
import re
import tomllib
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from rooflens.errors import InputError, UsageError, did_you_mean
from rooflens.model import Roof
from rooflens.quantity import Record
from rooflens.reports.theory.formats import compute_dtype

_PEAK_NAMES = {
    "float64": "fp64_tensor", "float32": "fp32", "tf32": "tf32", "bfloat16": "bf16",
    "float16": "fp16", "fp8": "fp8", "int8": "int8", "fp4": "fp4",
}  # fmt: skip
_FILLER_WORDS = {"nvidia", "geforce", "tesla", "amd", "instinct", "generation", "gpu"}
_MIB = 1024 * 1024


class Sourced(Record, frozen=True, kw_only=True):
    """A number and where it was read."""

    value: float
    source: str


class Gpu(Record, frozen=True, kw_only=True):
    """One GPU. Peaks are dense and for FP32 accumulate unless the name says otherwise."""

    name: str
    label: str
    arch: str = ""
    chip: str = ""
    compute_capability: str = ""
    aliases: tuple[str, ...] = ()
    sms_sourced: Sourced | None = None
    boost_hz: Sourced | None = None
    tensor_hz: Sourced | None = None
    """Clock at which the tensor peaks are printed; Hopper's lies below the boost clock."""
    l2: Sourced | None = None
    bandwidth: Sourced
    peaks: dict[str, Sourced]
    """FLOP/s by the names of gpus.toml (`bf16`, `fp16_fp16acc` ...)."""
    notes: tuple[str, ...] = ()

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Peak DRAM bandwidth."""
        return self.bandwidth.value

    @property
    def sms(self) -> int | None:
        """Streaming multiprocessors (compute units on AMD)."""
        return None if self.sms_sourced is None else int(self.sms_sourced.value)

    @property
    def l2_bytes(self) -> int | None:
        """Size of the L2 cache."""
        return None if self.l2 is None else int(self.l2.value)

    @property
    def sources(self) -> tuple[str, ...]:
        """Every source used, each once."""
        numbers = (self.sms_sourced, self.boost_hz, self.tensor_hz, self.l2, self.bandwidth)
        texts = [n.source for n in (*numbers, *self.peaks.values()) if n is not None]
        return tuple(dict.fromkeys(texts))

    def peak(self, dtype: str, accumulate: str = "float32") -> Sourced:
        """Dense peak in FLOP/s for products in `dtype`, with its source.

        Raises UsageError when this GPU has no such units.
        """
        name = _PEAK_NAMES[compute_dtype(dtype)]
        wanted = f"{name}_fp16acc" if accumulate == "float16" else name
        # A GPU without FP64 tensor cores has the plain FP64 rate.
        found = self.peaks.get(wanted) or (self.peaks.get("fp64") if name[:4] == "fp64" else None)
        if found is None:
            have = ", ".join(d for d, p in _PEAK_NAMES.items() if p in self.peaks)
            raise UsageError(
                f"{self.label} has no listed {dtype} peak (accumulate {accumulate}).",
                f"Use --dtype with one of: {have}.",
            )
        return found

    def peak_flops(self, dtype: str, accumulate: str = "float32") -> float:
        """`peak` without its source."""
        return self.peak(dtype, accumulate).value

    def roof(self, dtype: str, *, accumulate: str = "float32", prediction: bool = True) -> Roof:
        """The data-sheet roof for products in `dtype`."""
        peak = self.peak(dtype, accumulate)
        source = f"peak: {peak.source}; bandwidth: {self.bandwidth.source}"
        return Roof(
            name=self.label,
            kind="data sheet",
            peak_flops_per_s=peak.value,
            bandwidth_bytes_per_s=self.bandwidth.value,
            dtype=compute_dtype(dtype),
            source=source if peak.source != self.bandwidth.source else peak.source,
            l2_bytes=self.l2_bytes,
            prediction=prediction,
        )


def gpu(name: str) -> Gpu:
    """The GPU that a name means: `4090`, `rtx4090`, `H100-SXM`, what torch reports, a .toml file.

    Raises UsageError for an unknown name, and for one that several GPUs share (it lists them).
    """
    if name.lower().endswith(".toml"):
        return _from_file(Path(name))
    table = _gpus()
    key = _key(name)
    for found in table:
        if key in {_key(n) for n in (found.name, found.label, *found.aliases)}:
            return found
    words = _words(name)
    matches = [g for g in table if words and words <= _words(g.name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = ", ".join(g.name for g in matches)
        raise UsageError(f'--gpu: "{name}" is ambiguous.', f"Choose one of: {listed}.")
    raise UsageError(
        f'--gpu: unknown GPU "{name}".',
        f"{did_you_mean(name, gpu_names())} A file can add one: --gpu my-gpu.toml.",
    )


def gpu_names() -> list[str]:
    """Names of all known GPUs, the user's included, in the order of the table."""
    return [g.name for g in _gpus()]


def read_gpus(text: str, where: str) -> list[Gpu]:
    """Read the GPUs of a TOML text; InputError names the table and the field that is wrong.

    A number without a source of its own has the file's name as source: reports never hold paths.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where} is not valid TOML: {error}.") from None
    return [_gpu(name, fields, where) for name, fields in tables.items()]


def user_file() -> Path:
    """Where a user's own GPUs are looked for."""
    base = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(base) if base else Path.home() / ".config"
    return folder / "rooflens" / "gpus.toml"


def _gpus() -> list[Gpu]:
    own: list[Gpu] = []
    path = user_file()
    if path.is_file():
        own = read_gpus(path.read_text("utf-8"), str(path))
    replaced = {g.name for g in own}
    return [*own, *(g for g in _shipped() if g.name not in replaced)]


@lru_cache(maxsize=1)
def _shipped() -> tuple[Gpu, ...]:
    text = resources.files(__package__).joinpath("gpus.toml").read_text("utf-8")
    return tuple(read_gpus(text, "gpus.toml"))


def _from_file(path: Path) -> Gpu:
    try:
        found = read_gpus(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--gpu: cannot read {path}: {error}.") from None
    if len(found) != 1:
        raise UsageError(
            f"--gpu: {path} holds {len(found)} GPUs.",
            f"Leave one in it, or put them into {user_file()} and use their names.",
        )
    return found[0]


def _gpu(name: str, fields: Any, where: str) -> Gpu:
    if not isinstance(fields, dict):
        raise InputError(f"{where}: {name} is no table.", "Begin each GPU with [its-name].")
    missing = [f for f in ("dram_gbs", "dense_tflops") if f not in fields]
    if missing:
        raise InputError(f"{where}: [{name}] lacks {', '.join(missing)}.")
    sources, own = fields.get("sources", {}), Path(where).name
    peaks = fields["dense_tflops"]
    if not isinstance(sources, dict) or not isinstance(peaks, dict):
        raise InputError(f"{where}: [{name}] sources and dense_tflops are tables of names.")

    def number(field: str, value: Any, factor: float) -> Sourced:
        value, key = value if isinstance(value, list) and len(value) == 2 else (value, None)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise InputError(f"{where}: [{name}] {field} must be a number above 0 or [it, source].")
        if key is not None and key not in sources:
            raise InputError(f'{where}: [{name}] {field} names the source "{key}", not in sources.')
        exact = round(value * factor) if factor > 1 else value
        return Sourced(value=exact, source=sources[key] if key is not None else own)

    def optional(field: str, factor: float) -> Sourced | None:
        return number(field, fields[field], factor) if field in fields else None

    return Gpu(
        name=name,
        label=str(fields.get("label", name)),
        arch=str(fields.get("arch", "")),
        chip=str(fields.get("chip", "")),
        compute_capability=str(fields.get("compute_capability", "")),
        aliases=tuple(str(alias) for alias in fields.get("aliases", ())),
        sms_sourced=optional("sms", 1),
        boost_hz=optional("boost_mhz", 1e6),
        tensor_hz=optional("tensor_mhz", 1e6),
        l2=optional("l2_mib", _MIB),
        bandwidth=number("dram_gbs", fields["dram_gbs"], 1e9),
        peaks={d: number(f"dense_tflops.{d}", v, 1e12) for d, v in peaks.items()},
        notes=tuple(str(note) for note in fields.get("notes", ())),
    )


def _words(name: str) -> set[str]:
    """`rtx6000` -> rtx, 6000; letters after digits stay, so that L40 is not found in L40S."""
    return set(re.findall(r"[a-z]+|[0-9]+[a-z]*", name.lower())) - _FILLER_WORDS


def _key(name: str) -> str:
    """Letters and digits of a name without makers' words: `NVIDIA GeForce RTX 4090` -> rtx4090."""
    return "".join(w for w in re.findall(r"[a-z0-9]+", name.lower()) if w not in _FILLER_WORDS)
