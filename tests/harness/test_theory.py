"""`profile theory` as a user runs it."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rooflens.errors import RooflensError
from rooflens.harness.cli import cli


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["theory", *arguments])


def data(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    loaded = json.loads(result.output)
    assert isinstance(loaded, dict)
    return loaded


def refused(*arguments: str) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, RooflensError), result.output
    assert result.exception.exit_code == 2
    text = str(result.exception)
    assert "\n" not in text
    return text


def test_json_contract() -> None:
    answer = data("decode", "--batch", "1", "--context", "2048", "--gpu", "4090")
    assert list(answer) == [
        "workload", "model", "gpu", "dtype", "batch", "context", "query_tokens", "operators",
        "totals", "roof", "crossover_tokens", "floor_s",
    ]  # fmt: skip
    assert (answer["workload"], answer["model"], answer["gpu"], answer["dtype"]) == (
        "decode", "qwen2.5-7b", "RTX-4090", "bfloat16",
    )  # fmt: skip
    assert (answer["batch"], answer["context"], answer["query_tokens"]) == (1, 2048, 1)
    assert set(answer["operators"][0]) == {
        "name", "count", "shape", "flops", "bytes_in", "bytes_out", "intensity", "bound", "floor_s",
    }  # fmt: skip
    assert set(answer["totals"]) == {
        "params", "tensor_flops", "flops", "ideal_op_bytes", "compulsory_bytes", "intensity",
        "kv_bytes_per_token", "weight_bytes_read",
    }  # fmt: skip
    assert set(answer["roof"]) == {
        "peak_flops_per_s", "bandwidth_bytes_per_s", "ridge", "source",
    }  # fmt: skip
    assert set(answer["floor_s"]) == {
        "compute", "ideal_bytes", "compulsory_bytes", "step", "sum_of_operators",
    }  # fmt: skip
    assert answer["crossover_tokens"]["q_proj"] == pytest.approx(180.4, abs=0.05)
    attention = next(o for o in answer["operators"] if o["name"] == "attention")
    assert attention["shape"] == "q=1 L=2049 B=1"  # 2048 cached and the new one


def test_the_reference_step_by_default() -> None:
    answer = data("decode", "--gpu", "4090")
    assert answer["totals"]["compulsory_bytes"] == 14_258_990_088
    assert answer["floor_s"]["step"] == pytest.approx(14.1458235e-3, rel=1e-12)
    assert answer["totals"]["intensity"] == pytest.approx(
        answer["totals"]["flops"] / answer["totals"]["compulsory_bytes"], rel=1e-15
    )
    prefill = data("prefill")
    assert (prefill["context"], prefill["query_tokens"]) == (0, 2048)
    assert prefill["totals"]["flops"] == 27_579_116_945_408


def test_without_a_gpu_there_is_no_roof() -> None:
    answer = data("decode")
    assert answer["gpu"] is None
    assert not {"roof", "crossover_tokens", "floor_s"} & set(answer)
    assert {o["bound"] for o in answer["operators"]} == {"none"}
    assert all("floor_s" not in o for o in answer["operators"])


def test_text_says_what_becomes_compute_bound() -> None:
    text = run("decode", "--gpu", "rtx4090").output
    assert "q_proj becomes compute-bound at 180.4 tokens on an RTX 4090, k_proj at 258.4" in text
    assert "cannot take less than 14.1 ms (memory-bound)" in text
    assert "at most 70.69 tokens/s" in text  # 1.008e12 / 14,258,990,088
    assert "ridge 163.89 FLOP/B" in text
    assert "context 2047 + 1 new = 2048 keys" in text


def test_at_the_ridge_is_no_verdict() -> None:
    answer = data("gemm", "--m", "256", "--n", "512", "--k", "3584", "--gpu", "4090")
    (row,) = answer["operators"]
    assert row["bound"] == "at the ridge"
    assert row["intensity"] == pytest.approx(162.909, abs=1e-3)
    assert "compute-bound)" not in run("gemm", "--m", "256", "--n", "512", "--k", "3584").output


def test_a_product_that_never_crosses() -> None:
    assert data("gemm", "--m", "1", "--n", "64", "--k", "3584", "--gpu", "l4")[
        "crossover_tokens"
    ] == {"other": None}
    text = run("gemm", "--m", "1", "--n", "64", "--k", "3584", "--gpu", "l4").output
    assert "the product never becomes compute-bound on an L4" in text


def test_attention_of_one_layer() -> None:
    answer = data("attention", "--query-tokens", "2048", "--full")
    (row,) = answer["operators"]
    assert row["intensity"] == pytest.approx(1792, rel=1e-9)
    unfused = data("attention", "--query-tokens", "2048", "--unfused")
    assert [o["name"] for o in unfused["operators"]] == ["attention"] * 3
    assert unfused["totals"]["compulsory_bytes"] == answer["totals"]["compulsory_bytes"]


@pytest.mark.parametrize(
    ("arguments", "tokens"),
    [
        (("--query-tokens", "512"), 373.6),
        (("--query-tokens", "512", "--full"), 187.3),
        (("--query-tokens", "1", "--context", "1m"), 24),  # 23.4 on an endless context
        (("--query-tokens", "512", "--window", "64"), None),  # 7/8 of the window's keys: never
    ],
)
def test_attention_becomes_compute_bound(arguments: tuple[str, ...], tokens: float | None) -> None:
    found = data("attention", *arguments, "--gpu", "4090")["crossover_tokens"]["attention"]
    assert found == (None if tokens is None else pytest.approx(tokens, abs=0.1))


def test_a_gpu_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[Mine]\ndram_gbs = 1000\ndense_tflops.bf16 = 200\n")
    answer = data("decode", "--gpu", str(file))
    assert answer["gpu"] == "Mine"
    assert answer["roof"]["ridge"] == 200
    assert answer["roof"]["source"] == "mine.toml"


def test_csv_is_one_line_per_operator() -> None:
    rows = list(csv.DictReader(io.StringIO(run("decode", "--format", "csv").output)))
    assert len(rows) == 17
    assert rows[2]["name"] == "q_proj"
    assert int(rows[2]["bytes_in"]) == 25_704_448
    assert rows[2]["floor_s"] == ""


def test_markdown_has_tables_and_disagreements() -> None:
    text = run("decode", "--gpu", "4090", "--format", "markdown").output
    assert "| operator | calls |" in text
    assert "Where public sources disagree" in text


def test_html_asks_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    result = run("prefill", "--gpu", "h100", "--format", "html", "-o", str(file))
    assert result.output == f"Wrote {file}\n"
    page = file.read_text("utf-8")
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=[\"']?(http|//)|url\(|@import", page)
    assert "lm_head" in page
    # The only style that the page may use is the one in it, byte for byte.
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in page
    assert "prefers-color-scheme: dark" in page


def test_quantised_and_sharded_steps_say_so() -> None:
    answer = data(
        "decode", "--weights-dtype", "int4", "--kv-dtype", "fp8", "--tp", "4", "--gpu", "h100"
    )
    assert (answer["weights_dtype"], answer["kv_dtype"], answer["tp"]) == ("int4", "fp8", 4)
    assert answer["link_bytes"] > 0
    assert answer["totals"]["kv_bytes_per_token"] == 57344 // 2 // 4


def test_unequal_contexts() -> None:
    answer = data("decode", "--contexts", "1k,8k,513")
    assert answer["batch"] == 3
    assert answer["context"] == [1024, 8192, 513]


def test_a_chunk_among_decodes() -> None:
    answer = data("decode", "--contexts", "512,1k,1k", "--queries", "512,1,1")
    assert (answer["context"], answer["query_tokens"]) == ([512, 1024, 1024], [512, 1, 1])
    attention = next(o for o in answer["operators"] if o["name"] == "attention")
    pairs = 512 * 512 + 512 * 513 // 2 + 2 * 1025
    assert attention["flops"] == 4 * 28 * 128 * pairs


@pytest.mark.parametrize(("method", "format"), [("awq", "awq"), ("hqq", "bfloat16")])
def test_a_quantised_checkpoint(tmp_path: Path, method: str, format: str) -> None:
    config = {
        "model_type": "llama", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 3,
        "num_attention_heads": 4, "intermediate_size": 96,
        "quantization_config": {"quant_method": method, "bits": 4, "group_size": 128},
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    answer = data("decode", "--model", str(tmp_path))
    assert answer.get("weights_dtype", answer["dtype"]) == format
    text = run("decode", "--model", str(tmp_path)).output
    assert ("in a format not known here" in text) == (method == "hqq")


def test_a_config_by_path_is_called_by_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    config = {
        "model_type": "llama", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 3,
        "num_attention_heads": 4, "intermediate_size": 96, "torch_dtype": "float16",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    for path in (folder, folder / "config.json"):
        answer = data("decode", "--model", str(path))
        assert (answer["model"], answer["dtype"]) == ("my-model", "float16")
    del config["hidden_size"]
    (folder / "config.json").write_text(json.dumps(config))
    assert 'lacks "hidden_size"' in refused("decode", "--model", str(folder))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("decode", "--gpu", "a100"), "ambiguous"),
        (("decode", "--gpu", "4091"), "4090"),
        (("decode", "--gpu", "t4"), "--dtype"),
        (("decode", "--model", "qwen2.5-8b"), 'Did you mean "qwen2.5-'),
        (("decode", "--tp", "3"), "--tp 3 does not divide the 28 attention heads"),
        (("decode", "--batch", "0"), "--batch"),
        (("decode", "--context", "lots"), "--context"),
        (("decode", "--contexts", "1k,x"), "--contexts"),
        (("decode", "--dtype", "int4"), "--weights-dtype int4"),
        (("decode", "--kv-dtype", "fp7"), "--kv-dtype"),
        (("decode", "--format", "xml"), "--format"),
        (("attention", "--heads", "28", "--kv-heads", "5"), "--kv-heads 5 does not divide"),
        (("attention", "--full", "--window", "5"), "--full"),
        (("decode", "-o", "/nowhere/at/all.txt"), "cannot write"),
    ],
)
def test_mistakes_are_answered_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(*arguments)


def test_neither_torch_nor_pandas_is_imported() -> None:
    code = (
        "import sys; from rooflens.harness.cli import cli;"
        "cli.main(['theory', 'decode', '--gpu', '4090'], standalone_mode=False);"
        "bad = {'torch', 'transformers', 'pandas', 'numpy', 'jinja2'} & set(sys.modules);"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("format", ["text", "json", "csv", "markdown", "html"])
@pytest.mark.parametrize("gpu", [(), ("--gpu", "h100")])
@pytest.mark.parametrize(
    "arguments",
    [
        ("decode",), ("prefill", "--prompt", "8k", "--context", "8k"), ("verify",),
        ("decode", "--model", "deepseek-v3", "--tp", "8"), ("attention", "--window", "128"),
        ("decode", "--model", "qwen3-30b-a3b", "--batch", "32", "--sampling", "--unfused"),
        ("gemm", "--m", "8", "--n", "64", "--k", "64", "--bias", "--weights-dtype", "fp8"),
    ],
)  # fmt: skip
def test_every_workload_in_every_format(
    arguments: tuple[str, ...], gpu: tuple[str, ...], format: str
) -> None:
    result = run(*arguments, *gpu, "--format", format)
    assert result.exit_code == 0, result.output
    assert len(result.output) > 100
    assert "nan" not in result.output.lower().split()


def test_a_hostile_name_stays_text(tmp_path: Path) -> None:
    folder = tmp_path / "<script>alert(1)<"
    folder.mkdir()
    config = {
        "model_type": "llama", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 3,
        "num_attention_heads": 4, "intermediate_size": 96,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    page = run("decode", "--model", str(folder), "--format", "html").output
    assert "<script" not in page
    assert "&lt;script&gt;" in page
