"""Which format a file has, from its first bytes and never from its name alone.

FORMATS is an ordered list; the first that matches wins. To add a format, add one row here and one
to `READERS` in `harness/importing.py`.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rooflens.errors import InputError

SAMPLE_BYTES = 256 * 1024
"""Banners and application output before a CSV header can be long; a table starts within this."""


@dataclass(frozen=True)
class Sample:
    """The head of a file: its bytes (unpacked when gzipped), and the same as text."""

    path: Path
    head: bytes
    text: str


@dataclass(frozen=True)
class Format:
    """A format by name, with the sentence that says what was found."""

    name: str
    title: str
    matches: Callable[[Sample], bool]


_NCU_LONG = re.compile(r'^"?ID"?,"?Process ID"?,', re.M)
_NCU_HEAD_BYTES = re.compile(
    rb'"?(?:ID"?,"?Process ID|Process ID"?,"?Process Name|Domain"?,"?Range)'
)
_NCU_SUMMARY = re.compile(
    r'^"?(?:Process ID"?,"?Process Name|Domain"?,"?Range|Process ID"?,"?Device)', re.M
)
_NCU_SESSION = re.compile(r'\ALaunch Settings\r?\n"Launch Attribute"', re.M)
_NCU_NOISE = re.compile(r"^==(?:PROF|ERROR|WARNING)== ", re.M)
_NCU_TEXT = re.compile(r"^\s+Section: .+\r?\n\s+-{5,}|^==PROF== Profiling ", re.M)
_NSYS_STATS = re.compile(
    r"^(?:Time \(%\),Total Time \(|Start \(\w+\),Duration \(|Range,Style,|NVTX Range,Style,)", re.M
)
_NSYS_TEXT = re.compile(r"^Generating SQLite file |^Processing \[.+\] with \[|\bnsys\b", re.M)
_TRACE = re.compile(r'"(?:traceEvents|deviceProperties|baseTimeNanoseconds|schemaVersion)"\s*:')


def _ncu_csv(sample: Sample) -> bool:
    text = sample.text
    if _NCU_LONG.search(text) or _NCU_SESSION.search(text) or _ncu_summary(text):
        return True
    if not _NCU_NOISE.search(text):
        return False
    return not _NCU_TEXT.search(text) or _table_after_noise(sample.path)


def _table_after_noise(path: Path) -> bool:
    """Whether a table follows: ncu prints a line per kernel first, megabytes for a long run."""
    with path.open("rb") as file:
        return any(_NCU_HEAD_BYTES.match(line) for line in file)


def _ncu_summary(text: str) -> bool:
    return bool(_NCU_SUMMARY.search(text)) and '"Invocations"' in text


FORMATS: tuple[Format, ...] = (
    Format("ncu-rep", "Nsight Compute report", lambda s: s.head.startswith(b"NVR\0")),
    Format(
        "nsys-sqlite", "Nsight Systems SQLite export", lambda s: s.head[:15] == b"SQLite format 3"
    ),
    Format("nsys-rep", "Nsight Systems report", lambda s: b"NVIDIA Tegra Profiler" in s.head[:256]),
    Format("torch-trace", "torch profiler trace", lambda s: bool(_TRACE.search(s.text[:65536]))),
    Format("ncu-csv", "Nsight Compute CSV", _ncu_csv),
    Format("nsys-stats", "nsys stats CSV", lambda s: bool(_NSYS_STATS.search(s.text))),
    Format("ncu-text", "Nsight Compute text page", lambda s: bool(_NCU_TEXT.search(s.text))),
    Format("nsys-text", "nsys console text", lambda s: bool(_NSYS_TEXT.search(s.text[:4096]))),
)


def read_sample(path: Path) -> Sample:
    """Read the head of a file. Raises InputError when there is nothing to read."""
    if path.is_dir():
        raise InputError(f"{path} is a directory.", "Give the capture file inside it.")
    if path.exists() and not path.is_file():
        # Opening a pipe would wait for a writer that may never come.
        raise InputError(f"{path} is a pipe or a device, not a file.", "Write it to a file first.")
    try:
        with path.open("rb") as file:
            head = file.read(SAMPLE_BYTES)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    if not head:
        raise InputError(f"{path} is empty (0 bytes).", "Was the profiler stopped? Capture again.")
    if head[:2] == b"\x1f\x8b":
        head = _unpacked(path)
    return Sample(path=path, head=head, text=decode(head))


def decode(data: bytes) -> str:
    """Text of a tool's output: UTF-8, or UTF-16 where a byte-order mark says so (PowerShell)."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def _unpacked(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            return file.read(SAMPLE_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is a broken gzip file: {error}.", "Copy it again.") from None


def detect(path: Path) -> str:
    """Return the format name of a file. Raises InputError, with what can be read, if none fits."""
    sample = read_sample(path)
    for found in FORMATS:
        if found.matches(sample):
            return found.name
    raise _unknown(sample)


def title(name: str) -> str:
    """The words for a format name of FORMATS."""
    return next(found.title for found in FORMATS if found.name == name)


def _unknown(sample: Sample) -> InputError:
    suffix = sample.path.suffix
    if suffix in (".ncu-rep", ".nsight-cuprof-report"):
        return InputError(
            f"{sample.path}: the head of the report is missing (it does not begin with NVR): the "
            "file was cut or overwritten, and nothing in it can be read.",
            "Copy it again, or capture again and let ncu end by itself.",
        )
    readable = "Readable: " + ", ".join(found.title for found in FORMATS[:6]) + "."
    lines = sample.text.strip().splitlines()
    if suffix == ".csv" and lines:
        column = lines[0].split(",")[0].strip('"')[:40]
        return InputError(
            f'{sample.path} is a CSV of something else: its first column is "{column}", which '
            "neither ncu nor nsys writes.",
            readable,
        )
    return InputError(f"{sample.path} is none of the files that Rooflens reads.", readable)
