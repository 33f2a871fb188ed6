"""`--print-summary`: launches are gone, each row is a mean over a kernel's invocations.

A mean of counts times the invocations is the sum. A mean of a rate times a mean of a time is not
the mean of the product, so rates are not used here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rooflens.model import Join, KernelRow, absent, known
from rooflens.parsers.kernels import classify_name
from rooflens.parsers.metrics import derive
from rooflens.parsers.ncu_csv.cells import LongCells, metrics_of_rows
from rooflens.parsers.ncu_csv.columns import Reader, whole
from rooflens.parsers.ncu_csv.launches import CsvFile
from rooflens.parsers.ncu_csv.records import Table
from rooflens.parsers.ncu_units import Style

_RATES = (".per_cycle_elapsed", "derived__smsp__")


class SummaryCells(LongCells):
    """Means over several invocations; rates are hidden, for they must not be multiplied."""

    def __init__(self, metrics: dict[str, tuple[str, str]], style: Style, invocations: int) -> None:
        kept = metrics
        if invocations > 1:
            kept = {n: v for n, v in metrics.items() if not _is_product_of_means(n)}
        super().__init__(kept, style)


def _is_product_of_means(name: str) -> bool:
    if name.startswith(("dram__bytes", "lts__t", "l1tex__t")) and name.endswith(".per_second"):
        return True
    return (
        name.startswith(_RATES[1])
        or name.endswith(_RATES[0])
        or (name in ("sm__cycles_elapsed.avg", "sm__cycles_elapsed.max"))
    )


def read_summary(table: Table, file: CsvFile) -> Iterator[KernelRow]:
    """Kernel rows of a summary table."""
    file.forms.add("summary")
    header = table.header
    name, unit, mean = (header.index(c) for c in ("Metric Name", "Metric Unit", "Average"))
    names = [c for c in header[: header.index("Invocations")] if c != "Host Name"]
    places = [header.index(column) for column in names]
    reader = Reader(header)
    invocations_at = header.index("Invocations")
    complete = (row for row in table.rows if len(row) == len(header))
    for _, group in itertools.groupby(complete, key=lambda row: [row[p] for p in places]):
        rows = list(group)
        count = whole(rows[0][invocations_at])
        if not count:
            file.odd_rows += len(rows)
            continue
        metrics = metrics_of_rows((row[name], row[unit], row[mean]) for row in rows)
        identity = reader.identity(rows[0])
        cells = SummaryCells(metrics, file.style, count)
        derived = derive(cells, file.chip(identity))
        file.rounded = file.rounded or cells.rounded
        kernel = classify_name(identity.name)
        flops, moved = derived.flops.value, derived.dram_bytes.value
        intensity = (
            known(flops / moved, "flop/byte", "counters")
            if flops is not None and moved
            else absent(derived.flops.absent or derived.dram_bytes.absent or "no byte was moved")
        )
        yield KernelRow(
            name=identity.name,
            short_name=kernel.short_name,
            family=kernel.family,
            op_class=kernel.op_class,
            count=count,
            grid=identity.grid,
            block=identity.block,
            nvtx=identity.nvtx,
            device=identity.device,
            duration_ns=derived.duration_ns,
            dram_bytes=derived.dram_bytes,
            l2_bytes=derived.l2_bytes,
            flops=derived.flops,
            intensity=intensity,
            metrics=derived.metrics,
            paths=derived.paths,
            join=Join(method="name class", confidence="low"),
        )
