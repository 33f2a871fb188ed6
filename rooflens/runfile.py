"""Read and write run directories: `run.json` and what lies beside it.

A run directory appears whole or not at all: it is built beside its final place and renamed.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from rooflens.errors import InputError, UsageError
from rooflens.model import SCHEMA_VERSION, Run

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Run)
MAX_RUN_JSON_BYTES = 512 * 1024 * 1024


def encode_run(run: Run) -> bytes:
    """Serialise a run as the bytes of `run.json` (UTF-8, indented by one, newline at the end)."""
    return msgspec.json.format(_ENCODER.encode(run), indent=1) + b"\n"


def decode_run(data: bytes, where: str) -> Run:
    """Read the bytes of a `run.json`, upgrading older schema versions.

    Raises InputError naming `where` when the bytes are no run of a version this release reads.
    """
    try:
        version = msgspec.json.decode(data, type=_Version).schema_version
    except msgspec.MsgspecError as error:
        raise InputError(
            f"{where} is not a Rooflens run: {error}.",
            "Was the file cut short? Make the run again, or point at another run directory.",
        ) from None
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{where} has schema version {version}; this Rooflens reads up to {SCHEMA_VERSION}.",
            "Upgrade Rooflens: pip install -U rooflens.",
        )
    try:
        return _DECODER.decode(_upgrade(data, version, where))
    except msgspec.MsgspecError as error:
        raise InputError(
            f"{where} does not hold what a run of schema version {version} must hold: {error}.",
            "Make the run again with `profile run` or `profile import`.",
        ) from None


class _Version(msgspec.Struct):
    schema_version: int


def _upgrade(data: bytes, version: int, where: str) -> bytes:
    """Bring an older `run.json` to the present schema, one version at a time."""
    if version == SCHEMA_VERSION:
        return data
    raise InputError(f"{where} has schema version {version}, which was never released.")


def run_json_path(path: Path) -> Path:
    """Accept a run directory or its `run.json`."""
    return path / "run.json" if path.is_dir() else path


def read_run(path: Path) -> Run:
    """Read the run in a directory (or a `run.json`). Raises InputError with the next step."""
    file = run_json_path(path)
    if not file.is_file():
        raise InputError(
            f"No run at {path}: {'no run.json in it' if path.is_dir() else 'no such file'}.",
            "Give a directory that `profile run` or `profile import` wrote.",
        )
    if file.stat().st_size > MAX_RUN_JSON_BYTES:
        raise InputError(f"{file} is larger than {MAX_RUN_JSON_BYTES} bytes: not a run.json.")
    return decode_run(file.read_bytes(), str(file))


def schema() -> dict[str, object]:
    """JSON Schema of `run.json` (draft 2020-12), generated from the data model."""
    made = msgspec.json.schema(Run)
    made["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    made["title"] = f"Rooflens run, schema version {SCHEMA_VERSION}"
    return made


def schema_text() -> str:
    """The content of `rooflens/run.schema.json`."""
    return json.dumps(schema(), indent=1, sort_keys=True) + "\n"


def next_run_directory(parent: Path, stem: str) -> Path:
    """Return `parent/stem-<n>` with the first free n."""
    number = 1
    while (parent / f"{stem}-{number}").exists():
        number += 1
    return parent / f"{stem}-{number}"


@contextmanager
def new_run_directory(final: Path, force: bool) -> Iterator[Path]:
    """Yield a scratch directory that becomes `final` when the block ends without an error.

    Nothing is left behind on an error or Ctrl-C. An existing `final` is replaced only with `force`,
    and only when it is a run directory.
    """
    refuse_existing(final, force)
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    # mkdtemp makes it private; a run directory is shared like any other output.
    scratch.chmod(0o777 & ~_umask())
    try:
        yield scratch
        refuse_existing(final, force)
        old = None
        if final.exists():
            old = scratch.with_name(scratch.name + "-old")
            final.replace(old)
        scratch.replace(final)
        if old is not None:
            shutil.rmtree(old)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def refuse_existing(final: Path, force: bool) -> None:
    """Raise UsageError when `final` must not be replaced."""
    if not final.exists():
        return
    if not force:
        raise UsageError(f"{final} exists.", "Use --force to replace it, or another -o.")
    if not (final.is_dir() and (run_json_path(final)).is_file()):
        raise UsageError(f"{final} is not a run directory; --force will not replace it.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
