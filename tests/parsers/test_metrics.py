"""Counters to quantities: every path, its order, and what is never added."""

from __future__ import annotations

import pytest

from rooflens.parsers.metrics import Derived, derive

SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on"
TENSOR = "sm__ops_path_tensor_"


class Given:
    """Counters by name, in base units."""

    def __init__(self, values: dict[str, float], reasons: dict[str, str] | None = None) -> None:
        self.values = values
        self.reasons = reasons or {}

    def number(self, name: str, unit: str = "") -> float | None:
        return self.values.get(name)

    def reason(self, name: str) -> str:
        return self.reasons.get(name, "")


def of(values: dict[str, float], chip: str = "") -> Derived:
    return derive(Given(values), chip)


TIME = {"gpu__time_duration.sum": 2000.0}
NO_SASS = {SASS.format(op) + ".sum": 0.0 for op in ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma")}


@pytest.mark.parametrize(
    ("values", "moved", "path"),
    [
        ({"dram__bytes.sum": 100, "dram__bytes_read.sum": 70, "dram__bytes_write.sum": 20}, 100,
         "dram__bytes.sum"),
        ({"dram__bytes_read.sum": 70, "dram__bytes_write.sum": 20, "dram__sectors_read.sum": 9,
          "dram__sectors_write.sum": 9}, 90, "dram__bytes_read.sum + dram__bytes_write.sum"),
        ({"dram__bytes_op_read.sum": 64, "dram__bytes_op_write.sum": 32}, 96,
         "dram__bytes_op_read.sum + dram__bytes_op_write.sum"),
        ({"dram__sectors_read.sum": 2, "dram__sectors_write.sum": 1}, 96,
         "32 x dram__sectors_read.sum + 32 x dram__sectors_write.sum"),
        ({"dram__bytes.sum.per_second": 1e9}, 2000,
         "(dram__bytes.sum.per_second) x gpu__time_duration.sum"),
        ({"dram__bytes_read.sum.per_second": 1e9, "dram__bytes_write.sum.per_second": 5e8}, 3000,
         "(dram__bytes_read.sum.per_second + dram__bytes_write.sum.per_second) x "
         "gpu__time_duration.sum"),
    ],
)  # fmt: skip
def test_dram_bytes_take_the_first_path_that_is_there(
    values: dict[str, float], moved: float, path: str
) -> None:
    found = of(TIME | values)
    assert found.dram_bytes.value == moved
    assert found.paths["dram_bytes"] == path


def test_writes_that_stayed_in_l2_are_zero_and_fine() -> None:
    found = of({"dram__bytes_read.sum": 64, "dram__bytes_write.sum": 0})
    assert found.dram_bytes.value == 64


def test_one_side_alone_is_no_sum() -> None:
    found = of({"dram__bytes_write.sum": 64})
    assert found.dram_bytes.value is None
    assert "reads are missing" in (found.dram_bytes.absent or "")
    assert found.metrics["dram_write_bytes"].value == 64


def test_a_peak_is_no_traffic() -> None:
    found = of(TIME | {"dram__bytes.sum.peak_sustained": 1280, "dram__bytes.avg.per_second": 5})
    assert found.dram_bytes.value is None
    assert "not collected" in (found.dram_bytes.absent or "")


def test_chips_without_dram_counters_say_so() -> None:
    assert "GA10B has no DRAM counters" in (of(TIME, "ga10b").dram_bytes.absent or "")


def test_a_missing_value_keeps_its_reason() -> None:
    counters = Given({}, {"gpu__time_duration.sum": "ncu printed n/a"})
    absent = derive(counters).duration_ns.absent
    assert absent == "gpu__time_duration.sum: ncu printed n/a"


def test_time_from_cycles_where_there_is_no_duration() -> None:
    found = of({"sm__cycles_elapsed.avg": 1000, "sm__cycles_elapsed.avg.per_second": 1e9})
    assert found.duration_ns.value == 1000


@pytest.mark.parametrize(
    ("op", "factor", "kind"),
    [("fadd", 1, "fp32"), ("fmul", 1, "fp32"), ("ffma", 2, "fp32"), ("dadd", 1, "fp64"),
     ("dmul", 1, "fp64"), ("dfma", 2, "fp64"), ("hadd", 2, "fp16"), ("hmul", 2, "fp16"),
     ("hfma", 4, "fp16")],
)  # fmt: skip
def test_sass_factors(op: str, factor: int, kind: str) -> None:
    family = {"fp32": "fadd fmul ffma", "fp64": "dadd dmul dfma", "fp16": "hadd hmul hfma"}[kind]
    values = {SASS.format(name) + ".sum": 0.0 for name in family.split()}
    values[SASS.format(op) + ".sum"] = 10
    assert of(values).metrics[f"{kind}_flops"].value == 10 * factor


@pytest.mark.parametrize(("op", "factor"), [("fadd2", 2), ("fmul2", 2), ("ffma2", 4)])
def test_packed_fp32_of_blackwell_is_added_to_fp32(op: str, factor: int) -> None:
    values = NO_SASS | {SASS.format(op) + ".sum": 10.0}
    assert of(values, "gb100").metrics["fp32_flops"].value == 10 * factor


def test_rates_times_cycles_and_derived_values_as_rates() -> None:
    rate = ".sum.per_cycle_elapsed"
    values = {
        SASS.format("fadd") + rate: 3.0, SASS.format("fmul") + rate: 1.0,
        "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2": 6.0,
        "derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2": 8704.0,
        "smsp__cycles_elapsed.avg": 1000.0,
    }  # fmt: skip
    found = of(values)
    assert found.metrics["fp32_flops"].value == (3 + 1 + 6) * 1000
    assert "derived__smsp" in found.paths["fp32_flops"]


def test_a_missing_operation_leaves_the_kind_out_and_is_named() -> None:
    values = NO_SASS | {f"{TENSOR}src_bf16_dst_fp32.sum": 8.0, SASS.format("hfma") + ".sum": 1.0}
    found = of(values, "ga100")
    assert "fp16_flops" not in found.metrics
    assert found.flops.value == 8
    assert found.paths["flops"] == "tensor + fp64 + fp32 (without fp16: hadd, hmul not collected)"


def test_parents_only_children_are_never_added() -> None:
    values = {
        f"{TENSOR}src_bf16_dst_fp32.sum": 100.0,
        f"{TENSOR}src_bf16_dst_fp32_sparsity_off.sum": 100.0,
        f"{TENSOR}op_hmma_src_bf16_dst_fp32_sparsity_off.sum": 40.0,
        f"{TENSOR}op_hgmma_src_bf16_dst_fp32_sparsity_off.sum": 60.0,
    }
    assert of(values, "gh100").metrics["tensor_flops"].value == 100


def test_children_make_the_parent_where_it_was_not_collected() -> None:
    values = {
        f"{TENSOR}op_hmma_src_bf16_dst_fp32_sparsity_off.sum": 40.0,
        f"{TENSOR}op_hgmma_src_bf16_dst_fp32_sparsity_off.sum": 60.0,
        f"{TENSOR}op_hgmma_src_bf16_dst_fp32_sparsity_on.sum": 1.0,
    }
    found = of(values, "gh100")
    assert found.metrics["tensor_flops"].value == 101
    assert "sparsity_on was not collected" in found.paths["tensor_flops"]


def test_fp16_on_hopper_is_split_by_accumulate_type_too() -> None:
    values = {
        f"{TENSOR}op_hmma_src_fp16_dst_fp16_sparsity_off.sum": 1.0,
        f"{TENSOR}op_hmma_src_fp16_dst_fp32_sparsity_off.sum": 20.0,
        f"{TENSOR}op_hgmma_src_fp16_sparsity_off.sum": 300.0,
    }
    assert of(values, "gh100").metrics["tensor_flops"].value == 321


def test_only_wgmma_collected_is_named_as_partial() -> None:
    values = {f"{TENSOR}op_hgmma_src_bf16_dst_fp32.sum": 60.0}
    assert "without op_hmma_src_bf16_dst_fp32" in of(values, "gh100").paths["tensor_flops"]


def test_types_add_up_and_integers_are_no_flops() -> None:
    values = {
        f"{TENSOR}src_bf16_dst_fp32.sum": 5.0, f"{TENSOR}src_fp16_dst_fp32.sum": 7.0,
        f"{TENSOR}src_int8.sum": 1000.0,
    }  # fmt: skip
    found = of(values, "ga100")
    assert found.metrics["tensor_flops"].value == 12
    assert found.metrics["tensor_integer_ops"].value == 1000


def test_a_busy_pipe_without_a_count_is_unknown_not_zero() -> None:
    values = NO_SASS | {"sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active": 9}
    found = of(values, "ga100")
    assert found.flops.value is None
    assert "tensor cores were busy" in (found.flops.absent or "")


def test_an_idle_pipe_is_zero_tensor_flops() -> None:
    values = NO_SASS | {"sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active": 0}
    values[SASS.format("ffma") + ".sum"] = 3
    found = of(values, "ga100")
    assert (found.metrics["tensor_flops"].value, found.flops.value) == (0, 6)


def test_sass_alone_never_makes_the_flops_of_a_kernel() -> None:
    found = of(NO_SASS | {SASS.format("ffma") + ".sum": 3.0}, "gh100")
    assert found.flops.value is None
    assert found.metrics["fp32_flops"].value == 6


def test_tensor_counter_of_zero_alone_does_not_mean_no_flops() -> None:
    """A gemv at batch 1 runs outside the tensor cores."""
    every = {f"{TENSOR}{name}.sum": 0.0 for name in
             ("src_fp16_bf16_tf32_dst_fp32", "src_fp16_dst_fp16")}  # fmt: skip
    found = of(every, "tu102")
    assert found.metrics["tensor_flops"].value == 0
    assert found.flops.value is None
    assert "SASS" in (found.flops.absent or "")


def test_shares_are_of_the_roofs_that_were_held() -> None:
    values = TIME | NO_SASS | {
        "dram__bytes.sum": 1000.0,
        "dram__bytes.sum.peak_sustained": 1.0,
        "dram__cycles_elapsed.avg.per_second": 1e9,
        "sm__cycles_elapsed.avg.per_second": 1e9,
        f"{TENSOR}src_bf16_dst_fp32.sum": 4000.0,
        f"{TENSOR}src_bf16_dst_fp32.sum.peak_sustained": 8.0,
    }  # fmt: skip
    found = of(values, "ga100").metrics
    assert found["dram_percent_of_roof"].value == pytest.approx(50)
    # The parent's peak is the sparse one: 8 per cycle sparse is 4 dense, of which 2 were done.
    assert found["tensor_percent_of_roof"].value == pytest.approx(50)
    assert found["held_tensor_flops_per_s"].value == pytest.approx(4e9)


def test_cache_bytes() -> None:
    assert of({"lts__t_sectors.sum": 3, "l1tex__t_sectors.sum": 5}).l2_bytes.value == 96
    assert of({"lts__t_bytes.sum": 7, "lts__t_sectors.sum": 3}).l2_bytes.value == 7
    assert of({"l1tex__t_sectors.sum": 5}).metrics["l1_bytes"].value == 160
