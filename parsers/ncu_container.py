"""The outside of a `.ncu-rep`: is it whole, who wrote it, and under which regime.

Layout (read off public reports of 2022.3 to 2025.4): `NVR\\0`, u32 length, file header; then blocks
of u32 length, header message, payload. Fields of a block header: 1 sources, 2 results, 3 session,
5 payload length. Session: 8 = {1: name, 2: value} (versions), 11 = the command line.

The command line and the other session text name hosts, users and paths; only the options of ncu
that change what was measured are kept.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rooflens.errors import InputError

MAGIC = b"NVR\0"
_MAX_HEADER_BYTES = 256 * 1024 * 1024
_VERSION = re.compile(r"(\d{4}\.\d+\.\d+)")

REGIME_OPTIONS = {
    "--clock-control": ("clock control", "base|none|boost|reset"),
    "--cache-control": ("cache control", "all|none"),
    "--replay-mode": ("replay mode", "kernel|application|range|app-range"),
    "--set": ("set", r"[\w-]{1,40}"),
    "--graph-profiling": ("graph profiling", "node|graph"),
    "--target-processes": ("target processes", "all|application-only"),
    "--launch-count": ("launch count", r"\d{1,9}"),
    "-c": ("launch count", r"\d{1,9}"),
    "--launch-skip": ("launch skip", r"\d{1,9}"),
    "-s": ("launch skip", r"\d{1,9}"),
}
"""Options that change what a capture means, with the words they may have: anything else on the
command line could be private."""
REGIME_DEFAULTS = {
    "clock control": "base (ncu's default)",
    "cache control": "all (ncu's default: flushed before every pass)",
    "replay mode": "kernel (ncu's default)",
}


@dataclass
class Container:
    """What the blocks of a report say."""

    results: int = 0
    """Kernel results that the block headers announce."""
    whole_results: int = 0
    """Of these, those whose payload is all there."""
    cut: bool = False
    """The file ends inside a block."""
    version: str = ""
    """Of the ncu that measured, e.g. 2025.1.0; empty when the report does not say."""
    cuda: str = ""
    command: str = ""
    """Private: never leaves the parser. `regime` is what may."""
    interactive: bool = False
    """Captured from the user interface, so there is no command line."""
    tools: dict[str, str] = field(default_factory=dict)


def read_container(path: Path) -> Container:
    """Walk the blocks of a report without reading payloads.

    Raises InputError when the file is no report.
    """
    size = path.stat().st_size
    found = Container()
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise InputError(
                f"{path}: the head of the report is missing (it does not begin with NVR): the file "
                "was cut or overwritten.",
                "Copy it again, or capture again and let ncu end by itself.",
            )
        place = 8 + _u32(file.read(4))
        while place < size:
            file.seek(place)
            length = _u32(file.read(4))
            if not 0 < length <= _MAX_HEADER_BYTES or place + 4 + length > size:
                found.cut = True
                break
            payload = _block(file.read(length), found)
            if payload is None or place + 4 + length + payload > size:
                found.cut = True
                break
            found.whole_results = found.results
            place += 4 + length + payload
    return found


def _u32(data: bytes) -> int:
    return int.from_bytes(data, "little") if len(data) == 4 else -1


def _block(header: bytes, found: Container) -> int | None:
    """Note what a block header says; returns its payload's length, None when it is broken."""
    payload = results = 0
    try:
        for number, value in _fields(header):
            if number == 5 and isinstance(value, int):
                payload = value
            elif number == 2 and isinstance(value, int):
                results = value
            elif number == 3 and isinstance(value, bytes):
                _session(value, found)
    except ValueError:
        return None
    found.results += results
    return payload


def _session(message: bytes, found: Container) -> None:
    for number, value in _fields(message):
        if not isinstance(value, bytes):
            continue
        if number == 11:
            found.command = value.decode("utf-8", "replace")
        elif number == 8:
            pair = {n: v for n, v in _fields(value) if isinstance(v, bytes)}
            name = pair.get(1, b"").decode("utf-8", "replace")
            text = pair.get(2, b"").decode("utf-8", "replace")
            _version(name, text, found)


def _version(name: str, text: str, found: Container) -> None:
    match = _VERSION.search(text)
    if name == "Nsight Compute Target" and match:
        found.version = match[1]
    elif name.startswith("Nsight Compute") and match:
        found.interactive = True
        found.tools[name] = match[1]
        found.version = found.version or match[1]
    elif name == "CUDA Version":
        found.cuda = text[:16]


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Fields of a protobuf message. Raises ValueError when it is broken."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if kind == 2:
            length, place = _varint(message, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError("unknown wire type")
        if place + length > len(message):
            raise ValueError("field runs past its message")
        yield key >> 3, message[place : place + length]
        place += length


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(message) and shift < 70:
        byte = message[place]
        value |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return value, place
        shift += 7
    raise ValueError("broken number")


def regime(command: str) -> dict[str, str]:
    """Options of an ncu command line that change what was measured, and nothing else of it.

    The words after the application's name are not looked at: they are the application's.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    if not words:
        return {}
    found, sections, metrics = dict(REGIME_DEFAULTS), 0, 0
    place = 1
    while place < len(words) and words[place].startswith("-"):
        option, equals, value = words[place].partition("=")
        flag = option in _FLAGS
        if not equals and not flag and place + 1 < len(words):
            value = words[place + 1]
            place += 1
        name, allowed = REGIME_OPTIONS.get(option, ("", ""))
        if name and re.fullmatch(allowed, value):
            found[name] = value
        sections += option == "--section"
        metrics += (value.count(",") + 1) if option == "--metrics" else 0
        place += 1
    if sections:
        found["sections"] = str(sections)
    if metrics:
        found["metrics asked for"] = str(metrics)
    return found


_FLAGS = {
    "--call-stack", "--nvtx", "--support-32bit", "--null-stdin", "--disable-profiler-start-stop",
    "--quiet", "--force-overwrite", "-f", "--open-in-ui", "--csv", "--details-all", "--print-fp",
    "--fp", "--print-rule-details", "--verbose", "--section-folder-restore",
}  # fmt: skip
"""Options that take no word (ncu 2022.3 --help)."""
