"""The sentences and tables of an Answer, used by text, Markdown and HTML alike."""

from __future__ import annotations

from rooflens.reports.format import (
    NONE,
    bandwidth_text,
    bytes_text,
    count_text,
    flop_rate_text,
    flops_text,
    intensity_text,
    keys_text,
    significant_text,
    time_text,
)
from rooflens.reports.theory.answer import Answer, OperatorAnswer
from rooflens.reports.theory.floor import printed_ridge
from rooflens.reports.theory.rendering.tables import Table
from rooflens.units import NS_PER_S

_AN = frozenset("AEFHILMNORSX")
"""Letters whose names begin with a vowel: an H100, an L4, an RTX 4090."""


def title(answer: Answer) -> str:
    """`decode of qwen2.5-7b, bfloat16, batch 1, context 2048 + 1 new = 2049 keys`."""
    pieces = [answer.workload if answer.model is None else f"{answer.workload} of {answer.model}"]
    pieces.append(answer.dtype)
    if answer.weights_dtype != answer.dtype:
        pieces.append(f"weights {answer.weights_dtype}")
    if answer.kv_dtype != answer.dtype:
        pieces.append(f"cache {answer.kv_dtype}")
    if answer.batch is not None:
        pieces.append(f"batch {count_text(answer.batch)}")
    if isinstance(answer.context, int) and isinstance(answer.query_tokens, int):
        pieces.append(keys_text(answer.context, answer.query_tokens))
    elif answer.context is not None and answer.query_tokens is not None:
        pieces.append(f"contexts {_list_text(answer.context)}")
        pieces.append(f"new tokens {_list_text(answer.query_tokens)}")
    if answer.tp > 1:
        pieces.append(f"one of {answer.tp} tensor-parallel ranks")
    return ", ".join(pieces)


def operator_table(answer: Answer) -> Table:
    """One row per operator: FLOPs, bytes and floor of one call, and the step's share of each."""
    with_roof = answer.roof is not None
    columns = ["operator", "calls", "shape of one call", "FLOP/call", "bytes/call", "FLOP/B"]
    columns += ["bound", "floor/call", "floor/step"] if with_roof else []
    return Table(
        columns=tuple(columns),
        rows=tuple(_operator_cells(row, with_roof) for row in answer.operators),
        left=frozenset({0, 2, 6}),
        caption="Operators of one step, each as an ideal kernel: inputs read once, outputs written"
        " once",
    )


def totals_table(answer: Answer) -> Table:
    """The sums of the step."""
    totals = answer.totals
    rows: list[tuple[str, str, str]] = []
    if totals.params is not None:
        rows.append(("parameters", count_text(totals.params), ""))
    rows += [
        ("FLOPs of matrix products and attention", flops_text(totals.tensor_flops), ""),
        ("all FLOPs", flops_text(totals.flops), ""),
        ("bytes, operator by operator", bytes_text(totals.ideal_op_bytes), "minimum"),
        ("bytes, whole step fused", bytes_text(totals.compulsory_bytes), "compulsory"),
    ]
    if totals.weight_bytes_read is not None:
        rows.append(("of which weights", bytes_text(totals.weight_bytes_read), ""))
    if totals.kv_bytes_per_token is not None:
        layers = "one layer" if answer.model is None else "all layers"
        rows.append(("KV cache per token", bytes_text(totals.kv_bytes_per_token), layers))
    if answer.link_bytes:
        rows.append(("sent to other ranks", bytes_text(answer.link_bytes), "per rank"))
    rows.append(
        ("intensity", f"{intensity_text(totals.intensity)} FLOP/B", "all FLOPs / compulsory bytes")
    )
    return Table(
        columns=("of one step", "value", ""), rows=tuple(rows), left=frozenset({0, 2}),
        caption="Totals of one step",
    )  # fmt: skip


def floor_table(answer: Answer) -> Table | None:
    """The floors of the step; None without a roof."""
    floors = answer.floors
    if floors is None:
        return None
    rows = (
        ("matrix FLOPs at peak", time_text(floors.compute_ns)),
        ("compulsory bytes at full bandwidth", time_text(floors.compulsory_bytes_ns)),
        ("step floor: the larger of these two", time_text(floors.step_ns)),
        ("bytes of all operators at full bandwidth", time_text(floors.ideal_bytes_ns)),
        ("sum of the operators' own floors", time_text(floors.sum_of_operators_ns)),
    )
    return Table(columns=("cannot take less than", "time"), rows=rows, caption="Floors of one step")


def verdict(answer: Answer) -> str:
    """One sentence: what the step must move and, with a roof, what it cannot take less than."""
    moves = bytes_text(answer.totals.compulsory_bytes)
    computes = flops_text(answer.totals.tensor_flops)
    if answer.roof is None or answer.floors is None:
        return (
            f"It must move {moves} and compute {computes}."
            " Add --gpu NAME for floors, bounds and crossovers."
        )
    label, floors = answer.roof.name, answer.floors
    what = (
        "step" if answer.model is not None else "product" if answer.workload == "gemm" else "call"
    )
    start = f"On {article(label)} {label} this {what} cannot take less than"
    memory = f"moving {moves} takes {time_text(floors.compulsory_bytes_ns)}"
    compute = f"computing {computes} takes {time_text(floors.compute_ns)}"
    side = {
        "memory": "memory-bound",
        "compute": "compute-bound",
        "at the ridge": "at the ridge: too close to call",
    }[answer.bound]
    rate = ""
    # Among decodes a chunk of a prompt yields no token: only plain decodes have a rate.
    if answer.workload == "decode" and answer.query_tokens == 1 and answer.batch:
        tokens_per_s = answer.batch / floors.step_ns * NS_PER_S
        rate = f" It allows at most {significant_text(tokens_per_s, 4)} tokens/s."
    return f"{start} {time_text(floors.step_ns)} ({side}): {memory}, {compute}.{rate}"


def roof_sentence(answer: Answer) -> str:
    """Peak, bandwidth, ridge and where they come from; empty without a roof."""
    if answer.roof is None or answer.ridge is None:
        return ""
    roof = answer.roof
    return (
        f"Roof ({roof.kind}, {roof.dtype}): {flop_rate_text(roof.peak_flops_per_s)} dense,"
        f" {bandwidth_text(roof.bandwidth_bytes_per_s)}, ridge"
        f" {printed_ridge(roof):,.2f} FLOP/B. Source: {roof.source}."
    )


def crossover_sentence(answer: Answer) -> str:
    """`q_proj becomes compute-bound at 180.4 tokens on an RTX 4090, k_proj at 258.4 ...`."""
    if answer.roof is None or not answer.crossover_tokens:
        return ""
    label = answer.roof.name
    place = f" on {article(label)} {label}"
    known = [(n, t) for n, t in answer.crossover_tokens.items() if t is not None]
    never = [n for n, t in answer.crossover_tokens.items() if t is None]
    parts = []
    for i, (name, tokens) in enumerate(known):
        shown = tokens_text(tokens)
        name = "the product" if name == "other" else name
        parts.append(
            f"{name} becomes compute-bound at {shown} tokens{place}" if i == 0
            else f"{name} at {shown}"
        )  # fmt: skip
    sentence = ", ".join(parts)
    if never:
        names = ", ".join("the product" if n == "other" else n for n in never)
        sentence = (
            f"{sentence}; {names} never" if known
            else f"{names} never becomes compute-bound{place}"
        )  # fmt: skip
    return f"{sentence}."


def tokens_text(tokens: float) -> str:
    """A crossover with one digit after the point."""
    return f"{tokens:,.1f}"


def article(label: str) -> str:
    """`an` before RTX, H100, A100, L4, MI300X; `a` before T4, V100, GB200, B200."""
    return "an" if label[:1].upper() in _AN else "a"


def operator_label(row: OperatorAnswer) -> str:
    """The class, and which of several operators of that class."""
    name, detail = row.operator.name, row.operator.detail
    if name == "other" and detail:
        return detail
    return f"{name} ({detail})" if detail and detail not in (name, "fused") else name


def _operator_cells(row: OperatorAnswer, with_roof: bool) -> tuple[str, ...]:
    operator = row.operator
    cells = [
        operator_label(row),
        count_text(operator.count),
        operator.shape,
        flops_text(operator.flops),
        bytes_text(operator.bytes),
        significant_text(operator.intensity, 4) if operator.flops else "0",
    ]
    if with_roof:
        floor = row.floor_ns
        cells.append(row.bound)
        cells += (
            [NONE, NONE]
            if floor is None
            else [time_text(floor), time_text(floor * operator.count)]
        )  # fmt: skip
    return tuple(cells)


def _list_text(value: int | tuple[int, ...]) -> str:
    if isinstance(value, int):
        return count_text(value)
    shown = ", ".join(count_text(v) for v in value[:8])
    return shown if len(value) <= 8 else f"{shown} ... ({len(value)} sequences)"
