"""Where the points of a sweep are computed: here, in a process pool, or on a Ray cluster.

Every engine runs the same function over chunks of points and returns the rows in order. Points are
independent, so an engine is only a way to map.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from rooflens.errors import ProfilerError, UsageError, did_you_mean
from rooflens.model import Roof
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.step import StepShape
from rooflens.reports.theory.sweep import SweepRow, evaluate

ENGINES = ("local", "ray")
CHUNK = 10_000
"""Points per task: 1 to 3 s of work. Starting a process costs about 0.3 s, so less is done here."""


def run_points(
    architecture: Architecture,
    shapes: Sequence[StepShape],
    roofs: Sequence[Roof],
    engine: str = "local",
    workers: int | None = None,
) -> list[SweepRow]:
    """Rows of all points, in order.

    Raises UsageError for an unknown engine, ProfilerError when Ray is asked for and absent.
    """
    if engine == "local":
        return _local(architecture, shapes, roofs, workers or os.cpu_count() or 1)
    if engine == "ray":
        return _ray(architecture, shapes, roofs)
    raise UsageError(f'--engine: unknown engine "{engine}".', did_you_mean(engine, ENGINES))


def _chunks(shapes: Sequence[StepShape]) -> list[Sequence[StepShape]]:
    return [shapes[i : i + CHUNK] for i in range(0, len(shapes), CHUNK)]


def _local(
    architecture: Architecture, shapes: Sequence[StepShape], roofs: Sequence[Roof], workers: int
) -> list[SweepRow]:
    chunks = _chunks(shapes)
    if workers == 1 or len(chunks) < 2:
        return evaluate(architecture, shapes, roofs)
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # spawn: a fork of a process that has started threads (torch, Ray) can hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(chunks)), mp_context=context) as pool:
        tasks = [pool.submit(evaluate, architecture, chunk, roofs) for chunk in chunks]
        return [row for task in tasks for row in task.result()]


def _ray(
    architecture: Architecture, shapes: Sequence[StepShape], roofs: Sequence[Roof]
) -> list[SweepRow]:
    """On the cluster of RAY_ADDRESS; never starts one of its own."""
    try:
        import ray
    except ImportError:
        raise ProfilerError(
            "--engine ray needs the ray package.", "Install it with: pip install ray"
        ) from None
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError) as error:
            raise ProfilerError(
                f"--engine ray: no cluster answers ({error}).",
                "Start one with `ray start --head`, or set RAY_ADDRESS.",
            ) from None
    try:
        remote = ray.remote(evaluate)
        model, common = ray.put(architecture), ray.put(list(roofs))
        tasks = [remote.remote(model, list(chunk), common) for chunk in _chunks(shapes)]
        return [row for rows in ray.get(tasks) for row in rows]
    finally:
        if started:
            ray.shutdown()
