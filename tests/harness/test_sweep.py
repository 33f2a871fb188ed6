"""`profile sweep` as a user runs it: lists, rows, crossings, formats, engines, measured points."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rooflens.errors import ProfilerError, RooflensError, UsageError
from rooflens.harness import engines, sweeping
from rooflens.harness.cli import cli
from rooflens.harness.engines import run_points
from rooflens.reports.theory.architecture import Architecture, LayerKind
from rooflens.reports.theory.gpus import gpu
from rooflens.reports.theory.step import StepShape, step_theory
from rooflens.reports.theory.sweep import (
    evaluate,
    find_crossings,
    parse_counts,
    sweep_shapes,
)

TINY = Architecture(
    name="tiny", family="llama", vocab=128, hidden=64, query_heads=4, kv_heads=2, head_dim=16,
    intermediate=96, kinds=(LayerKind(count=2),),
)  # fmt: skip


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sweep", *arguments])


def data(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    loaded = json.loads(result.stdout)
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("1", (1,)),
        ("1,2,4..256", (1, 2, 4, 8, 16, 32, 64, 128, 256)),
        ("4..100", (4, 8, 16, 32, 64, 100)),
        ("1k,8k,32k", (1024, 8192, 32768)),
        ("1k..8k", (1024, 2048, 4096, 8192)),
        ("8, 2,8", (2, 8)),
        ("7..7", (7,)),
    ],
)
def test_lists_of_counts(text: str, counts: tuple[int, ...]) -> None:
    assert parse_counts(text, "--batch") == counts


@pytest.mark.parametrize("text", ["", "1,,2", "8..4", "0..8", "1..", "..4", "two", "1.5", "-1"])
def test_lists_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--batch"):
        parse_counts(text, "--batch")


def test_rows_equal_profile_theory() -> None:
    sweep = data("decode", "--batch", "1,32", "--context", "2047", "--gpu", "4090")
    one, many = sweep["rows"]
    assert one["compulsory_bytes"] == 14_258_990_088
    assert many["compulsory_bytes"] == 17_909_296_384
    assert one["floor_s"] == pytest.approx(14.1458235e-3, rel=1e-9)
    assert many["tokens_per_s"] == pytest.approx(32 / 17.767159e-3, rel=1e-6)
    assert one["bound"] == "memory"
    assert one["intensity"] == one["flops"] / one["compulsory_bytes"]


def test_every_combination_of_batch_context_and_gpu() -> None:
    sweep = data(
        "decode", "--batch", "1,2", "--context", "1k,8k", "--gpu", "4090,h100,h200,rtx4090"
    )
    points = {(r["gpu"], r["batch"], r["context"]) for r in sweep["rows"]}
    assert len(sweep["rows"]) == len(points) == 3 * 2 * 2
    assert {r["gpu"] for r in sweep["rows"]} == {"RTX 4090", "H100 SXM", "H200 SXM"}


def test_without_a_gpu_there_are_no_floors() -> None:
    sweep = data("decode", "--batch", "1..4")
    assert len(sweep["rows"]) == 3
    assert not {"gpu", "floor_s", "ridge", "tokens_per_s"} & set(sweep["rows"][0])
    assert sweep["crossings"] == []
    assert "Add --gpu" in run("decode").output


def test_a_crossing_is_exact_to_one() -> None:
    model = TINY
    roof = gpu("4090").roof("bfloat16")
    shapes = sweep_shapes(StepShape(), [1], [0], [16, 32, 64, 128, 256, 4096, 65536])
    rows = evaluate(model, shapes, [roof])
    base = StepShape(context=0)
    (crossing,) = find_crossings(model, base, rows, [roof], "query_tokens")
    assert crossing.at is not None

    def compute_bound(tokens: int) -> bool:
        theory = step_theory(model, StepShape(context=0, query_tokens=tokens))
        at = roof.peak_flops_per_s / roof.bandwidth_bytes_per_s
        return theory.tensor_flops / theory.compulsory_bytes >= at

    assert compute_bound(crossing.at)
    assert not compute_bound(crossing.at - 1)
    assert crossing.row is not None
    assert crossing.row.query_tokens == crossing.at


def test_crossings_in_words() -> None:
    text = run("prefill", "--prompt", "64..1k", "--gpu", "4090").output
    assert "On an RTX 4090 at batch 1, context 0 the step becomes compute-bound at 178 new" in text
    text = run("decode", "--batch", "1..64", "--context", "8k", "--gpu", "h100").output
    assert (
        "On an H100 SXM at context 8,192 the step stays memory-bound over the whole range" in text
    )
    assert re.search(r"RTX 4090 +180.4 +258.4", run("decode", "--gpu", "4090").output)


def test_csv_and_markdown() -> None:
    arguments = ("decode", "--batch", "1,2", "--gpu", "4090")
    rows = list(csv.DictReader(io.StringIO(run(*arguments, "--format", "csv").output)))
    assert [int(row["batch"]) for row in rows] == [1, 2]
    assert rows[0]["measured_s"] == ""
    assert "| GPU | batch |" in run(*arguments, "--format", "markdown").output


def test_html_has_curves_a_table_twin_and_asks_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "sweep.html"
    arguments = ("--batch", "1,2,4..512", "--context", "1k,8k", "--gpu", "4090,h100")
    run("decode", *arguments, "--format", "html", "-o", str(file))
    page = file.read_text("utf-8")
    assert page.count("<svg") == 3
    assert page.count('role="img"') == 3
    assert 'class="crossing' in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=[\"']?(http|//)|url\(|@import", page)
    assert page.count("<tr>") > 2 * 2 * 10
    assert len(page.encode()) < 1_000_000


def test_a_huge_table_is_cut_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "sweep.html"
    batches = ",".join(map(str, range(1, 101)))
    contexts = ",".join(map(str, range(25)))
    arguments = ("--batch", batches, "--context", contexts, "--gpu", "4090", "-o", str(file))
    run("decode", *arguments, "--format", "html")
    page = file.read_text("utf-8")
    assert "1,000 more rows are in the CSV" in page
    assert "At most 20 curves are drawn" in page
    assert len(page.encode()) < 1_000_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fly",), 'No workload "fly"'),
        (("decode", "--batch", "8..4"), "--batch"),
        (("decode", "--prompt", "8"), "--prompt belongs to prefill"),
        (("prefill", "--query-tokens", "8"), "--query-tokens belongs to verify"),
        (("decode", "--gpu", "4090,a100"), "ambiguous"),
        (("decode", "--tp", "3"), "--tp 3 does not divide"),
        (("decode", "--engine", "slurm"), "--engine"),
        (("decode", "--measure", "--device", "meta"), "meta has no times"),
        (("decode", "--measure", "--kv-dtype", "fp8"), "--measure runs the plain workload"),
    ],
)
def test_mistakes_are_answered_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, RooflensError), result.output
    assert words in str(result.exception)
    assert "\n" not in str(result.exception)


def test_too_many_points_are_refused_before_work() -> None:
    with pytest.raises(UsageError, match="2,000,000 points"):
        sweep_shapes(StepShape(), range(1, 2001), range(1000), [1])


def test_the_process_pool_gives_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "CHUNK", 7)
    shapes = sweep_shapes(StepShape(), range(1, 21), [0], [1])
    roofs = [gpu("4090").roof("bfloat16"), gpu("h100").roof("bfloat16")]
    assert run_points(TINY, shapes, roofs, workers=2) == evaluate(TINY, shapes, roofs)


def test_an_engine_that_is_not_there() -> None:
    with pytest.raises(UsageError, match='unknown engine "slurm"'):
        run_points(TINY, [StepShape()], [], engine="slurm")


def test_ray_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ProfilerError, match="needs the ray package"):
        run_points(TINY, [StepShape()], [], engine="ray")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_local_ray_cluster_gives_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="ray is an optional extra")
    monkeypatch.setattr(engines, "CHUNK", 7)
    shapes = sweep_shapes(StepShape(), range(1, 21), [0], [1])
    roofs = [gpu("4090").roof("bfloat16")]
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        assert run_points(TINY, shapes, roofs, engine="ray") == evaluate(TINY, shapes, roofs)
    finally:
        ray.shutdown()


def test_measured_points_are_put_beside_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    def step_time(shape: StepShape, model: str, options: object) -> tuple[str, float]:
        if shape.batch == 4:
            raise ProfilerError("Does not fit.")
        return "this CPU", 1e9 * shape.batch

    monkeypatch.setattr(sweeping, "_step_time", step_time)
    result = run("decode", "--batch", "1..4", "--gpu", "4090,h100", "--measure", "--format", "json")
    assert "Not measured: batch 4, context 2047, new tokens 1: Does not fit." in result.stderr
    sweep = json.loads(result.stdout)
    times = {(r["gpu"], r["batch"]): r.get("measured_s") for r in sweep["rows"]}
    assert times[("RTX 4090", 1)] == times[("H100 SXM", 1)] == 1.0
    assert times[("RTX 4090", 2)] == 2.0
    assert times[("RTX 4090", 4)] is None
    assert sweep["measured_on"] == "this CPU"
    text = run("decode", "--batch", "1..4", "--gpu", "4090", "--measure").stdout
    assert "Measured here on this CPU" in text
    assert "The floors of RTX 4090 are another machine's" in text
    assert "measured / floor" not in text
    page = run("decode", "--batch", "1..4", "--gpu", "4090", "--measure", "--format", "html").stdout
    assert "Squares are measured on this CPU" in page
    assert "measured: 2.00 s" in page


def test_a_measured_time_is_compared_with_its_own_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sweeping, "_step_time", lambda *_: ("NVIDIA GeForce RTX 4090", 2 * 14.1458235e6)
    )
    text = run("decode", "--gpu", "4090,h100", "--measure").stdout
    assert "measured / floor" in text
    assert re.search(r"RTX 4090 .* 2\.000×", text)
    assert not re.search(r"H100 SXM .*×", text)
    assert "The floors of H100 SXM are another machine's" in text
