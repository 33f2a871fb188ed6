"""How long a report takes to render and how large it is, against the number of ops and kernels.

    python benchmarks/report_render.py [--ops 1000,10000,100000] [--repeat 3]

Time is split into building the page (pure Python) and rendering the HTML (Jinja). The limit that
counts is a physical one of the reader: 1,000,000 bytes for the HTML, 60,000 characters for the
Markdown. The reference is the time that decoding the same run.json takes, because no report can be
written without that: the ratio says what the page itself costs. One line per size; exit code 1 when
a size limit is broken.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rooflens.model import Run
from rooflens.reports.html import MAX_PAGE_BYTES, render_html
from rooflens.reports.markdown import MAX_CHARACTERS, render_markdown
from rooflens.reports.view import build_page
from rooflens.runfile import decode_run, encode_run
from tests import builders
from tests.page import sample_runs


def run_of(ops: int) -> Run:
    """A run with `ops` recorded ops and as many kernel rows (one an op, at most 100,000)."""
    recorded = tuple(
        builders.op(
            index,
            "aten.mm",
            module=f"model.layers.{index % 80}.mlp.gate_proj",
            layer=index % 80,
            op_class="gate_proj",
            inputs=(builders.tensor(index, (1, 3584)), builders.tensor(index + 1, (3584, 18944))),
            outputs=(builders.tensor(index + 2, (1, 18944)),),
        )
        for index in range(ops)
    )
    kernels = sample_runs.many_kernels(min(ops, 100_000), name_length=300)
    return sample_runs.gpu_run(ops=recorded, kernels=kernels)


def median_s(action: Callable[[], object], repeat: int) -> float:
    """Median wall time of a few calls."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> int:
    """Print one line per size; return 1 when a report is too large."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ops", default="1000,10000,100000", help="sizes, comma separated")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print("    ops   decode s   build s  render s  (build+render)/decode   html bytes   md chars")
    broken = False
    for ops in (int(text) for text in options.ops.split(",")):
        data = encode_run(run_of(ops))
        decode = median_s(lambda data=data: decode_run(data, "benchmark"), options.repeat)
        run = decode_run(data, "benchmark")
        build = median_s(lambda run=run: build_page(run), options.repeat)
        page = build_page(run)
        render = median_s(lambda page=page: render_html(page), options.repeat)
        size, length = len(render_html(page).encode()), len(render_markdown(page))
        broken |= size >= MAX_PAGE_BYTES or length >= MAX_CHARACTERS
        ratio = (build + render) / decode
        print(
            f"{ops:7}  {decode:9.3f} {build:9.3f} {render:9.3f}  {ratio:21.2f} "
            f"{size:12} {length:10}"
        )
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
