"""GPUs by the names people type, sources, roofs, and a user's own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.errors import InputError, UsageError
from rooflens.reports.theory.floor import ridge
from rooflens.reports.theory.gpus import gpu, gpu_names

MINE = """
[My-Card]
label = "My card"
dram_gbs = [1000, "sheet"]
dense_tflops.bf16 = [200, "sheet"]
dense_tflops.fp16 = 210
sources.sheet = "its data sheet"
"""


@pytest.fixture(autouse=True)
def no_user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "rooflens" / "gpus.toml"


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("4090", "RTX-4090"), ("rtx4090", "RTX-4090"), ("RTX 4090", "RTX-4090"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"), ("h100", "H100-SXM"), ("H100-SXM", "H100-SXM"),
        ("h100 sxm5", "H100-SXM"), ("h100-pcie", "H100-PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("h100 nvl", "H100-NVL"), ("h200", "H200-SXM"), ("NVIDIA H200", "H200-SXM"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"), ("a100 80gb pcie", "A100-80GB-PCIe"),
        ("a10", "A10"), ("l4", "L4"), ("l40s", "L40S"), ("Tesla T4", "T4"), ("v100", "V100-SXM2"),
        ("b200", "B200-HGX"), ("gb200", "GB200"), ("gh200", "GH200-96GB"), ("mi300x", "MI300X"),
        ("rtx pro 6000", "RTX-PRO-6000-Blackwell-WS"), ("rtx6000ada", "RTX-6000-Ada"),
        ("5090", "RTX-5090"), ("3090", "RTX-3090"),
    ],
)  # fmt: skip
def test_names_people_type(typed: str, name: str) -> None:
    assert gpu(typed).name == name


@pytest.mark.parametrize("name", gpu_names())
def test_every_name_and_alias_means_its_gpu(name: str) -> None:
    found = gpu(name)
    assert {gpu(n).name for n in (name, found.label, *found.aliases)} == {name}


@pytest.mark.parametrize(
    ("typed", "choices"),
    [
        ("a100", "A100-40GB-PCIe, A100-40GB-SXM, A100-80GB-PCIe, A100-80GB-SXM"),
        ("a100-sxm", "A100-40GB-SXM, A100-80GB-SXM"),
        ("rtx6000", "RTX-6000-Ada, RTX-PRO-6000-Blackwell-WS"),
    ],
)
def test_ambiguous_names_list_the_choices(typed: str, choices: str) -> None:
    with pytest.raises(UsageError, match="ambiguous") as error:
        gpu(typed)
    assert error.value.hint == f"Choose one of: {choices}."


@pytest.mark.parametrize("typed", ["l40", "a10g", "3090ti", "rtx 4090 laptop", "", "gtx9999"])
def test_other_cards_are_not_guessed(typed: str) -> None:
    with pytest.raises(UsageError, match="unknown GPU"):
        gpu(typed)


@pytest.mark.parametrize("name", gpu_names())
def test_every_number_has_a_source(name: str) -> None:
    card = gpu(name)
    numbers = [card.sms_sourced, card.boost_hz, card.tensor_hz, card.l2, card.bandwidth]
    for number in [*numbers, *card.peaks.values()]:
        assert number is not None
        assert len(number.source) > 10
    assert 0.5e12 < card.peaks["fp32"].value < 1e15
    assert 250e9 < card.bandwidth_bytes_per_s < 10e12


def test_roof_and_accumulate() -> None:
    card = gpu("4090")
    roof = card.roof("bf16")
    assert (roof.peak_flops_per_s, roof.bandwidth_bytes_per_s) == (165.2e12, 1008e9)
    assert roof.dtype == "bfloat16"
    assert roof.l2_bytes == 72 * 2**20
    assert "Ada whitepaper" in roof.source
    assert card.peak_flops("fp16") == 165.2e12
    assert card.peak_flops("fp16", accumulate="float16") == 330.3e12
    assert any("FP16 accumulate" in note for note in card.notes)
    assert ridge(gpu("h100").roof("bf16")) == pytest.approx(295.17, abs=0.01)


def test_a_dtype_the_gpu_lacks() -> None:
    with pytest.raises(UsageError, match="T4 has no listed bfloat16 peak") as error:
        gpu("t4").roof("bfloat16")
    assert "float16" in error.value.hint


def test_a_users_own_gpu(tmp_path: Path, no_user_file: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    card = gpu(str(file))
    assert (card.label, card.peak_flops("bf16"), card.bandwidth_bytes_per_s) == (
        "My card", 200e12, 1000e9,
    )  # fmt: skip
    assert card.peak("fp16").source == "mine.toml"
    assert card.sms is None
    no_user_file.parent.mkdir()
    no_user_file.write_text(MINE)
    assert gpu("my card").name == "My-Card"
    assert gpu_names()[0] == "My-Card"
    no_user_file.write_text(MINE.replace("My-Card", "RTX-4090"))
    assert gpu("4090").label == "My card"
    assert gpu_names().count("RTX-4090") == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = [", "is not valid TOML"),
        ("[A]\ndram_gbs = 1\n", r"\[A\] lacks dense_tflops"),
        ("[A]\ndram_gbs = -1\ndense_tflops.bf16 = 1\n", r"\[A\] dram_gbs must be a number above 0"),
        ('[A]\ndram_gbs = [1, "s"]\ndense_tflops.bf16 = 1\n', 'names the source "s"'),
        ('[A]\ndram_gbs = "fast"\ndense_tflops.bf16 = 1\n', "must be a number"),
        ("[A]\ndram_gbs = 1\ndense_tflops = 3\n", "are tables of names"),
        ("a = 1\n", "a is no table"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        gpu(str(file))


def test_a_file_with_two_gpus_or_none_at_all(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(MINE + MINE.replace("My-Card", "Other"))
    with pytest.raises(UsageError, match="holds 2 GPUs"):
        gpu(str(file))
    with pytest.raises(InputError, match="cannot read"):
        gpu(str(tmp_path / "none.toml"))
