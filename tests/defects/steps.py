"""Steps to plant defects in: a tiny Qwen2 that runs on the CPU, and the full 7B on meta.

    ops = record_tiny(lambda model: model(ids(48), logits_to_keep=1))
    run = tiny_run(ops, StepShape(workload="prefill", context=0, query_tokens=48))

Theory, classes and roof are added as `profile run` does; the workload record stays that of a plain
decode, so that nothing but ops, theory and kernels can lead a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from rooflens.architectures import load_config
from rooflens.harness.recorder import record
from rooflens.model import Op, Run
from rooflens.reports.classify import classify
from rooflens.reports.join.counted import operator_rows, totals
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.gpus import gpu
from rooflens.reports.theory.step import StepShape, step_theory
from rooflens.workloads.models import load_model
from rooflens.workloads.spec import StepSpec
from tests import builders

LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 2, 64, 160, 4, 2, 16, 512
TINY: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": HIDDEN,
    "intermediate_size": FFN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": False,
}
ROOF = gpu("4090").roof("bfloat16")
Call = Callable[[Any], object]


@cache
def tiny(attention: str = "sdpa", dtype: torch.dtype = torch.bfloat16) -> Any:
    """A two-layer Qwen2 with random weights."""
    return built(TINY, attention, dtype)


def built(values: dict[str, Any], attention: str, dtype: torch.dtype = torch.bfloat16) -> Any:
    """A Qwen2 with this config and random weights."""
    from transformers import AutoConfig, AutoModelForCausalLM

    options = {key: value for key, value in values.items() if key != "model_type"}
    auto: Any = AutoModelForCausalLM
    torch.manual_seed(0)
    return auto.from_config(
        AutoConfig.for_model("qwen2", **options), dtype=dtype, attn_implementation=attention
    ).eval()


@cache
def seven_b(attention: str = "sdpa") -> Any:
    """The full Qwen2.5-7B on meta: all 28 layers, no memory."""
    return load_model(StepSpec(device="meta", attention=attention)).model


def ids(tokens: int, batch: int = 1, device: str = "cpu") -> torch.Tensor:
    """Token ids, the same every time."""
    if device == "meta":
        return torch.empty((batch, tokens), dtype=torch.long, device="meta")
    generator = torch.Generator().manual_seed(1)
    return torch.randint(VOCABULARY, (batch, tokens), generator=generator)


def filled_cache(
    model: Any, context: int, batch: int = 1, kind: str = "dynamic", size: int = 0
) -> Any:
    """A cache that holds `context` tokens; `static` has room for `size`."""
    from transformers import DynamicCache, StaticCache

    config = model.config
    device = next(model.parameters()).device
    dtype = next(model.parameters()).dtype
    head_dim = config.hidden_size // config.num_attention_heads
    held: Any = DynamicCache(config=config)
    if kind == "static":
        held = StaticCache(config=config, max_cache_len=size)
    shape = (batch, config.num_key_value_heads, context, head_dim)
    with torch.no_grad():
        for layer in range(config.num_hidden_layers):
            new = torch.zeros(shape, dtype=dtype, device=device)
            held.update(new, new.clone(), layer)
    return held


def recorded(call: Callable[[], object], model: Any, cache: object = None) -> tuple[Op, ...]:
    """Every op of one call, classified."""
    return classify(record(call, model, cache=cache))


def as_run(ops: Sequence[Op], config: dict[str, Any], shape: StepShape | None) -> Run:
    """The run of these ops, with theory for `shape` (None: no theory) and an RTX 4090's roof."""
    theory = None if shape is None else step_theory(Architecture.from_config(config), shape)
    return builders.run(
        ops=tuple(ops),
        operators=operator_rows(ops, theory, ROOF),
        totals=totals(ops, theory, ROOF),
        roofs=(ROOF,),
    )


def tiny_run(ops: Sequence[Op], shape: StepShape | None) -> Run:
    """A run of the tiny model."""
    return as_run(ops, TINY, shape)


def tiny_step(
    context: int, tokens: int, *, batch: int = 1, attention: str = "sdpa", **options: Any
) -> Run:
    """One plain step of the tiny model on a DynamicCache."""
    model = tiny(attention)
    held = filled_cache(model, context, batch) if context else None
    options = {"logits_to_keep": 1, "cache": held, "use_cache": True} | options
    ops = recorded(lambda: model(ids(tokens, batch), **options), model, held)
    return tiny_run(ops, shape_of(context, tokens, batch))


def seven_b_step(
    context: int, tokens: int, *, batch: int = 1, attention: str = "sdpa", **options: Any
) -> Run:
    """One plain step of the 7B on meta."""
    model = seven_b(attention)
    held = filled_cache(model, context, batch) if context else None
    options = {"logits_to_keep": 1, "cache": held, "use_cache": True} | options
    ops = recorded(lambda: model(ids(tokens, batch, "meta"), **options), model, held)
    return seven_b_run(ops, shape_of(context, tokens, batch))


def seven_b_run(ops: Sequence[Op], shape: StepShape | None) -> Run:
    """A run of the 7B."""
    return as_run(ops, dict(load_config("qwen2.5-7b")), shape)


def shape_of(context: int, tokens: int, batch: int = 1) -> StepShape:
    """What theory is asked for."""
    return StepShape(
        workload="decode" if tokens == 1 else "prefill",
        batch=batch,
        context=context,
        query_tokens=tokens,
    )
