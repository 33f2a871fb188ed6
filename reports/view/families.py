"""Where the kernel time goes by family, for captures whose kernels belong to no operator class."""

from __future__ import annotations

from rooflens.reports.charts.bars import Bar, Segment, stacked_bars
from rooflens.reports.format import count_text, percent_text, plural, source_text, time_text
from rooflens.reports.view.basis import REST, Basis
from rooflens.reports.view.cells import clean, table, words
from rooflens.reports.view.page import Cell, Chart, Column

COLOURS = ("c0", "c1", "c2", "c3", "c4")
"""As many families as colours can keep apart; the others are drawn as one."""


def family_chart(basis: Basis) -> Chart | None:
    """Draw the time of all kernels, largest families first; None without kernel times."""
    times: dict[str, float] = {}
    launches: dict[str, int] = {}
    kernels = [k for k in basis.run.kernels if k.duration_ns.value is not None]
    for kernel in kernels:
        name = clean(kernel.family, 40) or "unknown"
        spent = float(kernel.duration_ns.value or 0) * kernel.count
        times[name] = times.get(name, 0.0) + spent
        launches[name] = launches.get(name, 0) + kernel.count
    whole = sum(times.values())
    if not whole:
        return None
    ordered = sorted(times, key=lambda name: (-times[name], name))
    segments = [
        Segment(css, name, times[name]) for css, name in zip(COLOURS, ordered, strict=False)
    ]
    rest = sum(times[name] for name in ordered[len(COLOURS) :])
    if rest:
        segments.append(Segment(REST[0], plural(len(ordered) - len(COLOURS), "more family",
                                                "more families"), rest))  # fmt: skip
    bars = [Bar("All kernels", tuple(segments), time_text(whole))]
    described = ", ".join(f"{s.name} {time_text(s.value)}" for s in segments)
    title = "Kernel time by family"
    drawing = stacked_bars("where-time", title, described, bars, time_text)
    columns = (
        Column("Family", numeric=False),
        Column("Time", source=source_text(kernels[0].duration_ns)),
        Column("Share"),
        Column("Launches"),
    )
    rows = [
        [
            words(name),
            Cell(time_text(times[name]), sort=times[name]),
            Cell(percent_text(times[name] / whole), sort=times[name]),
            Cell(count_text(launches[name]), sort=launches[name]),
        ]
        for name in ordered[:30]
    ]
    reading = "Kernel times added up by family; kernels that overlap are counted each."
    if {kernel.duration_ns.source for kernel in kernels} == {"counters"}:
        reading += " These times are from ncu: each kernel alone, cold and replayed."
    keys = tuple((segment.css, segment.name) for segment in segments)
    return Chart(drawing, reading, table("where-time-table", title, columns, rows), keys)
