"""The same model and step through public calculators: who differs from Rooflens, and why.

    python benchmarks/peers/compare.py                        print the table
    python benchmarks/peers/compare.py --write docs/peers.md  keep it

Installed packages (requirements.txt beside this file) are called; one that is absent is listed as
not installed. Tools that are no package, or do not read this model, are re-implemented here from
the formulas in their sources, and marked "described".
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rooflens.architectures import load_config
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.rendering.tables import Table, markdown_table
from rooflens.reports.theory.step import StepShape, step_theory

MODEL = "qwen2.5-7b"
KEYS = 2048
PROMPT = 2048


@dataclass(frozen=True)
class Answer:
    """What a tool says; None where it says nothing."""

    tool: str
    how: str
    decode_flops: float | None = None
    decode_bytes: float | None = None
    kv_bytes_per_token: float | None = None
    prefill_flops: float | None = None
    why: str = ""


MISSING = "not installed"


def rooflens() -> Answer:
    """Ours: matrix FLOPs, compulsory bytes, causal attention."""
    model = Architecture.from_config(load_config(MODEL), MODEL)
    decode = step_theory(model, StepShape(context=KEYS - 1))
    prefill = step_theory(model, StepShape(workload="prefill", context=0, query_tokens=PROMPT))
    return Answer(
        "Rooflens", "this repository", decode.tensor_flops, decode.compulsory_bytes,
        decode.kv_bytes_per_token, prefill.tensor_flops, "",
    )  # fmt: skip


def all_pairs() -> Answer:
    """Ours without the causal mask, for tools that compute all query x key pairs."""
    model = Architecture.from_config(load_config(MODEL), MODEL)
    shape = StepShape(workload="prefill", context=0, query_tokens=PROMPT, fused=False)
    flops = step_theory(model, shape).tensor_flops
    return Answer(
        "Rooflens, --unfused", "this repository", prefill_flops=flops,
        why="all query x key pairs, as an eager program computes them",
    )  # fmt: skip


def llm_analysis() -> Answer:
    """llm-analysis: forward FLOPs of a sequence; decode is a sequence of one, without a cache."""
    from llm_analysis.analysis import LLMAnalysis
    from llm_analysis.config import GPUConfig, ModelConfig

    c = load_config(MODEL)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        config = ModelConfig(
            name=MODEL,
            num_layers=c["num_hidden_layers"],
            n_head=c["num_attention_heads"],
            hidden_dim=c["hidden_size"],
            vocab_size=c["vocab_size"],
            num_key_value_heads=c["num_key_value_heads"],
            ffn_embed_dim=c["intermediate_size"],
            expansion_ratio=c["intermediate_size"] / c["hidden_size"],  # else an AssertionError
        )
        peer = LLMAnalysis(config, GPUConfig("h100", 80, 3352, 450, 8e-6, 989))
        layers = c["num_hidden_layers"]
        return Answer(
            "llm-analysis",
            _version("llm-analysis"),
            decode_flops=peer.get_num_flops_fwd_total(1, 1),
            kv_bytes_per_token=peer.get_memory_kv_cache_per_layer(1, 1) * layers,
            prefill_flops=peer.get_num_flops_fwd_total(1, PROMPT),
            why="MLP is 16 b s h^2: the width 18944 is ignored (half of the MLP is missing); decode"
            " has no context; not causal; the head is counted for all positions",
        )


def servcalc() -> Answer:
    """servcalc: FLOPs and streamed bytes of a decode step, and a whole prompt."""
    from servcalc.work import (
        decode_step,
        kv_bytes_per_token,
        prefill_total_flops,
        weight_bytes,
    )
    from vramcalc import Arch

    arch = Arch.from_config(load_config(MODEL))
    per_token = kv_bytes_per_token(arch, 16)
    stream = weight_bytes(arch, 16).stream
    work = decode_step(arch, 1, KEYS, per_token, stream, False)
    return Answer(
        "servcalc",
        _version("servcalc"),
        work.flops,
        work.bytes,
        per_token,
        prefill_total_flops(arch, PROMPT),
        "agrees to 0.01 %: counts 2 FLOP for every parameter, norms and biases too; reads one key"
        " more and no logits or embedding row",
    )


def ridgepoint() -> Answer:
    """ridgepoint: the cache of a sequence; it prints no FLOPs or bytes of a step."""
    from ridgepoint import _core

    c = load_config(MODEL)
    params = Architecture.from_config(c, MODEL).params
    text = _core.fit_shape(
        MODEL, c["num_hidden_layers"], c["num_hidden_layers"], c["hidden_size"], params, params,
        "gqa", 128, c["num_attention_heads"], c["num_key_value_heads"], 0, 0, "h100-80gb", 1,
        "vllm", "fp16", "fp16", KEYS, PROMPT, True,
    )  # fmt: skip
    capacity = json.loads(text)["capacity"]
    return Answer(
        "ridgepoint",
        _version("ridgepoint"),
        kv_bytes_per_token=capacity["bytes_per_seq"] / capacity["ctx"],
        why="agrees on the cache; gives calibrated times, no FLOPs or bytes per step",
    )


@dataclass(frozen=True)
class _Sizes:
    layers: int
    d: int
    f: int
    v: int
    q: int
    kv: int

    @property
    def layer_weights(self) -> int:
        return self.d * (2 * self.q + 2 * self.kv) + 3 * self.d * self.f


def _sizes() -> _Sizes:
    c = load_config(MODEL)
    kv = c["hidden_size"] // c["num_attention_heads"] * c["num_key_value_heads"]
    return _Sizes(
        c["num_hidden_layers"], c["hidden_size"], c["intermediate_size"], c["vocab_size"],
        c["hidden_size"], kv,
    )  # fmt: skip


def llm_viewer() -> Answer:
    """LLM-Viewer's decode with flash attention: head once per weight, cache of all query heads."""
    s = _sizes()
    attention = 4 * s.q * KEYS
    flops = s.layers * (2 * s.layer_weights + attention) + s.d * s.v
    prefill = s.layers * (2 * s.layer_weights + attention) * PROMPT + s.d * s.v
    cache = s.layers * 2 * s.q * 2
    return Answer(
        "LLM-Viewer", "described", flops, None, cache, prefill,
        "lm_head counts 1 FLOP per weight instead of 2; flash path bills the cache for 28 heads"
        " instead of 4; not causal",
    )  # fmt: skip


def roofline_analyzer() -> Answer:
    """transformer-roofline-analyzer, the config renamed to llama."""
    s = _sizes()
    scores, values = 2 * s.q * KEYS, 2 * s.kv * KEYS
    flops = s.layers * (2 * s.layer_weights + scores + values)
    prefill = s.layers * (2 * s.layer_weights + scores + values) * PROMPT
    return Answer(
        "transformer-roofline-analyzer", "described", flops, None, None, prefill,
        "no lm_head; scores x V with 4 heads instead of 28; no parser for qwen2 (renamed to llama)",
    )  # fmt: skip


def sglang() -> Answer:
    """SGLang's estimator."""
    s = _sizes()
    flops = s.layers * (2 * s.layer_weights + 4 * s.q * KEYS)
    weights = s.layers * s.layer_weights * 2
    return Answer(
        "SGLang estimator", "described", flops, weights + KEYS * 57344, 57344, None,
        "no lm_head; weights are billed per token: 64 times at batch 64",
    )  # fmt: skip


def nsys_ai() -> Answer:
    """nsys-ai's theoretical_flops: MHA and a two-matrix MLP."""
    s = _sizes()
    flops = s.layers * (2 * (4 * s.d**2 + 2 * s.d * s.f) * PROMPT + 4 * s.d * PROMPT**2)
    return Answer(
        "nsys-ai", "described", prefill_flops=flops,
        why="k and v as wide as q, MLP without gate, no head, not causal; no decode",
    )  # fmt: skip


TOOLS: tuple[Callable[[], Answer], ...] = (
    rooflens, all_pairs, servcalc, llm_analysis, ridgepoint, llm_viewer, roofline_analyzer, sglang,
    nsys_ai,
)  # fmt: skip


def answers() -> list[Answer]:
    """Every tool's answer, in order."""
    found = []
    for tool in TOOLS:
        try:
            found.append(tool())
        except ImportError as error:
            found.append(Answer(tool.__name__.replace("_", "-"), MISSING, why=f"{error}"))
    return found


def table(found: list[Answer]) -> Table:
    """Each number with its ratio to ours."""
    ours = found[0]
    columns = (
        "tool", "how", "decode FLOP", "decode bytes", "KV bytes/token", "prefill FLOP",
        "why it differs",
    )  # fmt: skip
    rows = tuple(
        (
            a.tool, a.how,
            _cell(a.decode_flops, ours.decode_flops), _cell(a.decode_bytes, ours.decode_bytes),
            _cell(a.kv_bytes_per_token, ours.kv_bytes_per_token),
            _cell(a.prefill_flops, ours.prefill_flops), a.why,
        )
        for a in found
    )  # fmt: skip
    return Table(columns=columns, rows=rows, left=frozenset({0, 1, 6}))


def page(found: list[Answer]) -> str:
    """The table with what it compares."""
    return f"""# The same step through other calculators

{MODEL}, bfloat16, batch 1: one decode step over {KEYS} keys, and a prefill of {PROMPT} tokens
(matrix and attention FLOPs, head on the last token). The number in brackets is the ratio to
Rooflens. Written by `python benchmarks/peers/compare.py --write docs/peers.md`; packages are called
as installed, "described" rows are formulas re-implemented from the tool's source.

{markdown_table(table(found))}

Rooflens' own numbers are checked against torch's FlopCounterMode on eight model families
(`tests/reports/theory/test_flop_counter.py`) and against published tables (`test_step_tables.py`).
"""


def main(arguments: list[str]) -> int:
    """Print the page, or write it; 1 when fewer than two packages could be run."""
    found = answers()
    text = page(found)
    if arguments[:1] == ["--write"]:
        Path(arguments[1]).write_text(text, "utf-8")
    else:
        print(text)
    run = [a for a in found if a.how not in ("this repository", "described", MISSING)]
    return 0 if len(run) >= 2 else 1


def _cell(value: float | None, ours: float | None) -> str:
    if value is None:
        return "-"
    if not ours or value == ours:
        return f"{value:,.0f}"
    ratio = value / ours
    return f"{value:,.0f} ({ratio:.3f})" if abs(ratio - 1) >= 5e-4 else f"{value:,.0f} (1.000)"


def _version(package: str) -> str:
    return f"PyPI {importlib.metadata.version(package)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
