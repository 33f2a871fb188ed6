"""Single launches of a counter capture, kept beside run.json as `captures/launches.sqlite`.

run.json holds groups of launches with means; a capture may have a million launches. Columns are
documented in docs/importing.md. A number that was not measured is NULL, and `absent` says why.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from rooflens.model import Launch
from rooflens.reports.join.kernels import Joined
from rooflens.reports.view.redact import redact

FILE_NAME = "launches.sqlite"
QUANTITIES = ("duration_ns", "dram_bytes", "l2_bytes", "flops")

_SCHEMA = """
create table launches (
  launch integer primary key, file text not null, name text not null, class text not null,
  part text, layer integer, join_method text not null, join_confidence text not null,
  ops text not null, nvtx text not null, grid text not null, block text not null,
  device integer, stream integer,
  duration_ns real, dram_bytes real, l2_bytes real, flops real,
  metrics text not null, paths text not null, absent text not null
)
"""


def write_launches(
    path: Path, launches: Sequence[tuple[str, Launch]], joined: Sequence[Joined]
) -> None:
    """Write one row per launch; `launches` are (name of the capture file, launch)."""
    connection = sqlite3.connect(path)
    try:
        with connection:
            connection.execute(_SCHEMA)
            marks = ", ".join("?" * 21)
            connection.executemany(
                f"insert into launches values ({marks})", _rows(launches, joined)
            )
    finally:
        connection.close()


def _rows(
    launches: Sequence[tuple[str, Launch]], joined: Sequence[Joined]
) -> Iterator[tuple[object, ...]]:
    for number, ((file, launch), to) in enumerate(zip(launches, joined, strict=True)):
        values = {name: getattr(launch, name) for name in QUANTITIES}
        absent = {name: q.absent for name, q in values.items() if q.value is None}
        yield (
            number,
            file,
            redact(launch.demangled or launch.name),
            to.op_class,
            to.part,
            to.layer,
            to.join.method,
            to.join.confidence,
            json.dumps(to.join.ops),
            json.dumps([redact(name) for name in launch.nvtx]),
            json.dumps(launch.grid),
            json.dumps(launch.block),
            launch.device,
            launch.stream,
            *(q.value for q in values.values()),
            json.dumps({n: q.value for n, q in launch.metrics.items() if q.value is not None}),
            json.dumps(launch.paths),
            json.dumps(absent),
        )
