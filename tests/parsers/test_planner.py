"""The metric planner: names that exist, predicted passes, and the real ncu where it can tell."""

from __future__ import annotations

import json
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest

from rooflens.errors import UsageError
from rooflens.parsers.chips import chip_names, exists, tensor_parents
from rooflens.parsers.planner import DTYPES, SETS, base_name, ncu_arguments, plan_metrics

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference"
LIVE_CHIPS = ("gv100", "tu102", "tu104", "tu116", "ga100", "ga102", "ad102", "gh100")


def names(chip: str, dtype: str = "bfloat16", set: str = "standard") -> list[str]:
    return [metric.name for metric in plan_metrics(chip, dtype, set).metrics]


@pytest.mark.parametrize("chip", chip_names())
@pytest.mark.parametrize("set", SETS)
def test_every_planned_name_exists_on_its_chip(chip: str, set: str) -> None:
    for dtype in DTYPES:
        for name in names(chip, dtype, set):
            if "sass" not in name:  # the table has the smsp names; the FP32 peak is an sm name
                assert exists(chip, base_name(name)), name


@pytest.mark.parametrize(
    ("chip", "counter"),
    [
        ("gh100", "src_bf16_dst_fp32"), ("ga100", "src_bf16_dst_fp32"), ("gb202", "src_bf16_dst_fp32"),  # noqa: E501
        ("tu104", "src_fp16_bf16_tf32_dst_fp32"),
    ],
)  # fmt: skip
def test_bf16_counter_per_chip(chip: str, counter: str) -> None:
    assert f"sm__ops_path_tensor_{counter}.sum" in names(chip)


def test_chips_with_their_own_spelling() -> None:
    assert "dram__bytes_op_read.sum" in names("gb202")
    assert "dram__bytes_read.sum" not in names("gb202")
    assert "dram__bytes_read.sum" in names("gb100")
    assert not any(name.startswith("dram__") for name in names("ga10b"))
    assert "smsp__sass_thread_inst_executed_op_ffma2_pred_on.sum" in names("gb100")
    assert "smsp__sass_thread_inst_executed_op_ffma2_pred_on.sum" not in names("gb202")
    assert "sm__ops_path_tensor_src_fp16.sum" in names("gh100", "float16")


@pytest.mark.parametrize(
    ("chip", "set", "passes"),
    [("gh100", "minimal", 1), ("ga100", "minimal", 1), ("gb202", "minimal", 1), ("gv100", "minimal", 1),  # noqa: E501
     ("gh100", "standard", 2), ("gh100", "full", 5), ("ga102", "full", 5), ("ad102", "full", 6),
     ("gb100", "full", 6), ("gb110", "full", 10), ("gb202", "full", 10), ("tu102", "full", 2)],
)  # fmt: skip
def test_predicted_passes(chip: str, set: str, passes: int) -> None:
    """The last column of the prediction is everything: counters.md, section 3."""
    assert plan_metrics(chip, "bfloat16", set).passes == passes


def test_minimal_says_what_it_cannot_count() -> None:
    (note,) = plan_metrics("gh100", "bfloat16", "minimal").notes
    assert "gemv at batch 1" in note


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("sm__inst_executed_pipe_tensor_op_hmma_pred_on.sum", "is in no list of counters"),
        ("dram__bytes_op_read.sum", "does not exist on gh100"),
        ("dram__bytes.furlong", "no such roll-up"),
    ],
)
def test_unknown_metrics_are_refused(metric: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        plan_metrics("gh100", "bfloat16", add=[metric])


def test_unknown_chips_and_dtypes_are_refused() -> None:
    with pytest.raises(UsageError, match="No counter list"):
        plan_metrics("gh200", "bfloat16")
    with pytest.raises(UsageError, match="No tensor counter"):
        plan_metrics("gh100", "int3")


def test_argument_list_is_one_word_an_argument() -> None:
    plan = plan_metrics("gh100", "bfloat16")
    arguments = ncu_arguments(plan, "out", ("python", "a b.py"), "rooflens@step/")
    assert arguments[-2:] == ("python", "a b.py")
    assert arguments[arguments.index("--nvtx-include") + 1] == "rooflens@step/"
    assert arguments[arguments.index("--metrics") + 1].count(",") == len(plan.metrics) - 1


@pytest.mark.conformance
def test_the_table_is_the_two_public_lists() -> None:
    metrics = json.loads((REFERENCE / "ncu_metrics.json").read_text())
    listed: dict[tuple[str, str], bool] = {}
    for source in metrics.values():
        for name, chips in source.items():
            for chip, there in chips.items():
                listed[name, chip] = listed.get((name, chip), False) or there
    own_tensor = {n for n, _ in listed if n.startswith(("sm__ops_path", "smsp__ops_path"))}
    for (name, chip), there in listed.items():
        if name not in own_tensor:
            assert exists(chip, name) == there, (name, chip)
    for source in json.loads((REFERENCE / "ncu_ops_path.json").read_text()).values():
        for chip, counters in source.items():
            assert all(exists(chip, counter) for counter in counters)
            parents = [c for c in counters if "_op_" not in c and "_sparsity_" not in c]
            assert len(tensor_parents(chip)) == len(parents)


@lru_cache(maxsize=16)
def live(chip: str) -> frozenset[str]:
    """Base metrics that the installed ncu lists for a chip."""
    shown = subprocess.run(
        ["ncu", "--query-metrics", "--chips", chip], capture_output=True, text=True, timeout=120
    ).stdout
    return frozenset(line.split()[0] for line in shown.splitlines() if "__" in line)


@pytest.mark.nsight
@pytest.mark.parametrize("chip", LIVE_CHIPS)
def test_dram_lts_and_sass_names_are_listed_by_nvidias_ncu(chip: str) -> None:
    """ncu 2022.3 lists no tensor operation counter and no Blackwell, so only these are checked."""
    known = live(chip)
    assert len(known) > 200
    for name in names(chip, set="full"):
        if name.startswith(("dram__", "lts__", "sm__sass", "smsp__sass")):
            assert base_name(name) in known, name
