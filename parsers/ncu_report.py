"""Read `.ncu-rep` files through NVIDIA's ncu_report package (optional: `pip install ncu-report`).

The package reads reports on any machine, without a GPU. It raises nothing on a damaged file, so
the container is checked first, and "no results" is an error here.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rooflens.errors import InputError
from rooflens.model import Capture, Check, Launch, Machine, absent
from rooflens.parsers.chips import chip_of_capability, chip_of_id
from rooflens.parsers.metrics import Derived, derive
from rooflens.parsers.ncu_checks import launch_checks, passes_of
from rooflens.parsers.ncu_container import Container, read_container, regime
from rooflens.parsers.ncu_units import base_unit
from rooflens.reading import Reading

DAMAGED = absent("the result is damaged: the report holds no metric of it")
OWN_DOMAIN = "rooflens"
INSTALL = "pip install ncu-report."


class ActionCounters:
    """The metrics of one result of a report, asked for by name."""

    def __init__(self, action: Any) -> None:
        self._action = action
        self._values: dict[str, tuple[float | None, str]] = {}
        """Value in base units and its base unit; the reason instead where there is no value."""

    def number(self, name: str, unit: str = "") -> float | None:
        """Value in base units, or None. With `unit` the report's unit must have that base."""
        found = self._values.get(name)
        if found is None:
            found = self._values[name] = self._read(name)
        value, base = found
        if value is not None and unit and base != unit:
            raise InputError(f'{name} has the unit "{base}", not {unit}.')
        return value

    def reason(self, name: str) -> str:
        """Why a metric of the report has no value; empty when it is not in the report."""
        if self.number(name) is not None:
            return ""
        return self._values[name][1]

    def _read(self, name: str) -> tuple[float | None, str]:
        metric = self._action.metric_by_name(name)
        if metric is None:
            return None, ""
        value = metric.value()
        if value is None:
            return None, "ncu recorded no data for it"
        if isinstance(value, str):
            return None, "it is a word, not a number"
        if not math.isfinite(value):
            return None, "ncu recorded nan: the kernel died in replay or was not measured"
        base, factor = base_unit(metric.unit())
        return (value if factor == 1.0 else value * factor), base

    def text(self, name: str) -> str:
        """A metric that is a word, e.g. the name of the device."""
        metric = self._action.metric_by_name(name)
        value = None if metric is None else metric.value()
        return value if isinstance(value, str) else ""

    def triple(self, prefix: str) -> tuple[int, ...]:
        """A grid or block from its three metrics; empty when the launch has none."""
        sides = [self.number(f"{prefix}_dim_{axis}") for axis in "xyz"]
        return tuple(int(side) for side in sides if side is not None) if None not in sides else ()


def read(path: Path) -> Reading:
    """Read every kernel result of a report.

    Raises InputError when the file is damaged or holds no result, or when the ncu_report package
    is missing or too old for it.
    """
    container = read_container(path)
    package = _package(path, container)
    context = _load(package, path)
    version = str(context.get_version())
    actions = list(_actions(context))
    if container.cut:
        # The package also returns the result that the cut went through, without its values.
        actions = actions[: container.whole_results]
    if not actions:
        raise _empty(path, container, version)
    launches, machine, skipped = [], Machine(device="imported"), 0
    for index, action in enumerate(actions):
        counters = ActionCounters(action)
        if action.workload_type() != package.IAction.WorkloadType_KERNEL:
            skipped += 1
            continue
        if not machine.gpu:
            machine = _machine(counters, container)
        launches.append(_launch(index, action, counters, machine.gpu_chip))
    if not launches:
        raise InputError(
            f"{path} holds {skipped} ranges or graphs and no kernel.",
            "Capture kernels: leave --replay-mode and --graph-profiling at kernel and node.",
        )
    checks = list(launch_checks(launches))
    checks += _file_checks(container, version, len(actions), skipped)
    return Reading(
        format="ncu-rep",
        evidence="counters",
        capture=Capture(
            file=path.name,
            format="ncu-rep",
            tool=f"ncu {container.version}".strip(),
            rows=len(launches),
            regime=_regime(container, launches),
        ),
        machine=machine,
        launches=tuple(launches),
        checks=tuple(checks),
        tools={"ncu": container.version, "ncu_report": version},
    )


def _package(path: Path, container: Container) -> Any:
    wrote = f" (written by ncu {container.version})" if container.version else ""
    try:
        return importlib.import_module("ncu_report")
    except ImportError as error:
        raise InputError(
            f"{path} is an Nsight Compute report{wrote}; reading it needs the ncu_report package: "
            f"{error}.",
            f"{INSTALL} Or print the report as CSV where ncu is installed: ncu --import FILE "
            "--page raw --csv --print-units base > FILE.csv, and import that.",
        ) from None


def _load(package: Any, path: Path) -> Any:
    try:
        return package.load_report(str(path))
    except Exception as error:  # the package raises RuntimeError and types of its own
        raise InputError(f"{path}: ncu_report cannot read it: {error}.") from None


def _actions(context: Any) -> Iterator[Any]:
    for number in range(context.num_ranges()):
        results = context.range_by_idx(number)
        for index in range(results.num_actions()):
            yield results.action_by_idx(index)


def _empty(path: Path, container: Container, version: str) -> InputError:
    if container.cut:
        return InputError(
            f"{path} is cut short: it ends inside a block, and no kernel result is whole.",
            "Copy it again, or capture again and let ncu end by itself.",
        )
    if container.results and _older(version, container.version):
        return InputError(
            f"{path} was written by ncu {container.version}; ncu_report {version} is older and "
            "finds nothing in it.",
            "Upgrade: pip install -U ncu-report.",
        )
    return InputError(
        f"{path} holds no kernel: ncu connected but profiled nothing.",
        "No kernels were profiled: check the NVTX and kernel filters, and that the application "
        "launched kernels (`profile doctor`).",
    )


def _older(package: str, report: str) -> bool:
    """Whether a package version is below the report's, by major and minor."""

    def key(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())

    return bool(package and report) and key(package) < key(report)


def _machine(counters: ActionCounters, container: Container) -> Machine:
    major = counters.number("device__attribute_compute_capability_major")
    minor = counters.number("device__attribute_compute_capability_minor")
    capability = "" if major is None or minor is None else f"{int(major)}.{int(minor)}"
    chip = chip_of_id(counters.number("device__attribute_chip"))
    l2 = counters.number("device__attribute_l2_cache_size")
    return Machine(
        device="imported",
        gpu=counters.text("device__attribute_display_name"),
        gpu_chip=chip or chip_of_capability(capability),
        compute_capability=capability,
        cuda=container.cuda,
        last_level_cache_bytes=None if l2 is None else int(l2),
    )


def _launch(index: int, action: Any, counters: ActionCounters, chip: str) -> Launch:
    derived = derive(counters, chip)
    if derived.duration_ns.value is None and not action.metric_names():
        # The package returns a result that it could not parse as one without metrics.
        derived = Derived(DAMAGED, DAMAGED, DAMAGED, DAMAGED)
    return Launch(
        index=index,
        name=str(action.name()),
        demangled=str(action.name(action.NameBase_DEMANGLED)),
        grid=counters.triple("launch__grid"),
        block=counters.triple("launch__block"),
        device=_int(counters.number("launch__device_id")),
        stream=_int(counters.number("launch__stream_id")),
        nvtx=_ranges(action),
        duration_ns=derived.duration_ns,
        dram_bytes=derived.dram_bytes,
        l2_bytes=derived.l2_bytes,
        flops=derived.flops,
        metrics=derived.metrics,
        paths=derived.paths,
    )


def _int(value: float | None) -> int | None:
    return None if value is None else int(value)


def _ranges(action: Any) -> tuple[str, ...]:
    """Enclosing ranges, outermost first: of Rooflens' own domain, else of the one with most."""
    state = action.nvtx_state()
    if state is None:
        return ()
    longest: tuple[str, ...] = ()
    for number in state.domains():
        domain = state.domain_by_id(number)
        path = tuple(domain.push_pop_ranges()) or tuple(domain.start_end_ranges())
        if path and domain.name() == OWN_DOMAIN:
            return path
        longest = max(longest, path, key=len)
    return longest


def _regime(container: Container, launches: list[Launch]) -> dict[str, str]:
    found = {} if container.interactive else regime(container.command)
    if container.interactive:
        found["captured from"] = "the user interface: its clock and cache control are not stored"
    return found | passes_of(launches)


def _file_checks(container: Container, version: str, found: int, skipped: int) -> list[Check]:
    checks = []
    if container.cut:
        checks.append(Check(
            id="ncu-report-cut", outcome="warning",
            message=f"The report is cut short: {found} kernel results were whole, "
            f"{max(container.results - found, 0)} announced ones are lost.",
            fix="Copy it again, or capture again and let ncu end by itself.",
        ))  # fmt: skip
    if skipped:
        checks.append(Check(
            id="ncu-ranges", outcome="warning",
            message=f"{skipped} results are ranges or graphs, not kernels, and were left out.",
            fix="Capture kernels: --replay-mode kernel --graph-profiling node.",
        ))  # fmt: skip
    if _older(version, container.version):
        checks.append(Check(
            id="ncu-report-version", outcome="warning",
            message=f"ncu_report {version} is older than ncu {container.version} that wrote the "
            "report: what it does not know is missing.",
            fix="pip install -U ncu-report",
        ))  # fmt: skip
    return checks
