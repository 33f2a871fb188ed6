"""torch profiler traces (Chrome trace JSON of Kineto; CUDA and ROCm), plain or gzipped."""

from __future__ import annotations

from pathlib import Path

from rooflens.errors import InputError
from rooflens.model import Launch
from rooflens.parsers.kineto.events import KINETO, Collector
from rooflens.parsers.kineto.facts import read_facts
from rooflens.parsers.kineto.stream import open_trace
from rooflens.parsers.timeline.trace import Trace
from rooflens.reading import Reading

_SIZE_CHECK_EVERY = 100_000


def read(path: Path) -> Reading:
    """Read one trace.

    Raises InputError when the file is no trace of torch's profiler, is cut short or damaged, or
    unpacks to an absurd size. A trace without kernels is read; its checks say so.
    """
    from rooflens.parsers.timeline.build import reading

    return reading(read_trace(path), path.name, "torch-trace")


def read_launches(path: Path) -> tuple[Launch, ...]:
    """The launches of the representative step in launch order, to be matched with counters."""
    from rooflens.parsers.timeline.build import launches_of

    return launches_of(read_trace(path))


def read_trace(path: Path) -> Trace:
    """Read the columns of one trace. Raises InputError as `read` does."""
    trace = Trace(tool="torch")
    collector = Collector()
    with open_trace(path) as stream:
        for number, event in enumerate(stream.events()):
            collector.add(event)
            if number % _SIZE_CHECK_EVERY == 0:
                collector.check_size(str(path))
        extra = stream.extra
    if not KINETO & collector.categories.keys():
        raise InputError(
            f"{path} has no event that torch's profiler writes.",
            "Give the file that torch.profiler's export_chrome_trace wrote.",
        )
    collector.fill(trace)
    read_facts(trace, extra, collector.categories)
    return trace
