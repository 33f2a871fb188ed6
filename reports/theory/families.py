"""Hugging Face configurations -> Architecture, one reader per model family.

Field names and defaults are those of transformers' configuration classes. A field that changes a
size is never guessed when it is missing: the error names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

from rooflens.errors import InputError
from rooflens.reports.theory.architecture import (
    Architecture,
    Experts,
    LatentAttention,
    LayerKind,
)

CORE_FIELDS = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
)  # fmt: skip

MAX_LAYERS = 10_000

Config = Mapping[str, Any]


def read_config(config: Config, name: str = "") -> Architecture:
    """Read a configuration of a known family.

    Raises InputError: unknown family (with the fields a Llama-shaped reading would need), missing
    fields (all of them, by name), or sizes that cannot be.
    """
    family = str(config.get("model_type", ""))
    reader = FAMILIES.get(family)
    if reader is None:
        missing = [field for field in CORE_FIELDS if field not in config]
        known = ", ".join(sorted(FAMILIES))
        lacks = (
            f"Read as a Llama-shaped model it lacks {_listed(missing)}."
            if missing
            else 'If it is Llama-shaped, set "model_type": "llama" in a copy.'
        )
        raise InputError(f'Unknown model family "{family}" (known: {known}).', lacks)
    name = name or str(config.get("_name_or_path", "")) or family
    _require(config, CORE_FIELDS, name)
    return reader(config, name)


def _dense(config: Config, name: str, **traits: Any) -> Architecture:
    """The fields that all families share; `traits` are the family's own."""
    hidden, heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
    kv_heads = _size(config, "num_key_value_heads", heads)
    if "head_dim" in config and config["head_dim"] is not None:
        head_dim = _size(config, "head_dim")
    elif hidden % heads:
        raise InputError(
            f"{name}: hidden_size {hidden} is no multiple of num_attention_heads {heads}.",
            'Give "head_dim".',
        )
    else:
        head_dim = hidden // heads
    if heads % kv_heads and "latent" not in traits:
        raise InputError(
            f"{name}: num_attention_heads {heads} is no multiple of num_key_value_heads {kv_heads}."
        )
    weights_dtype, quantised_by = stored_format(config)
    traits.setdefault("kinds", (LayerKind(count=_layers(config)),))
    return Architecture(
        name=name,
        family=str(config["model_type"]),
        dtype=str(config.get("dtype") or config.get("torch_dtype") or "bfloat16"),
        weights_dtype=weights_dtype,
        quantised_by=quantised_by,
        vocab=_size(config, "vocab_size"),
        hidden=hidden,
        query_heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=_size(config, "intermediate_size"),
        tied=bool(config.get("tie_word_embeddings", False)),
        **traits,
    )


def stored_format(config: Config) -> tuple[str | None, str]:
    """(format name, "") from `quantization_config`; (None, method) when it is an unknown one.

    AWQ, GPTQ and FP8 checkpoints say how their projections are stored; without this their weights
    would be counted two to four times too large.
    """
    stored = config.get("quantization_config")
    if not isinstance(stored, Mapping):
        return None, ""
    method, bits = str(stored.get("quant_method", "unknown")), stored.get("bits", 4)
    group = stored.get("group_size", 128)
    if method == "fp8":
        return ("fp8-block" if stored.get("weight_block_size") == [128, 128] else "fp8"), ""
    if method == "awq" and (bits, group) == (4, 128):
        return "awq", ""
    if method == "gptq" and bits == 4 and isinstance(group, int) and group > 0:
        return f"int4-g{group}", ""
    return None, method


def _read_llama(config: Config, name: str) -> Architecture:
    bias = bool(config.get("attention_bias", False))
    mlp_bias = bool(config.get("mlp_bias", False))
    return _dense(config, name, qkv_bias=bias, o_bias=bias, mlp_bias=mlp_bias)


def _read_mistral(config: Config, name: str) -> Architecture:
    """All layers have the window when `sliding_window` is set (v0.1: 4096; v0.3: null)."""
    return _dense(config, name, kinds=_kinds(config, windowed=lambda layer: True))


def _read_qwen2(config: Config, name: str) -> Architecture:
    """Biases on q, k and v, none on o. A window only from layer `max_window_layers` on."""
    return _dense(config, name, qkv_bias=True, kinds=_qwen_kinds(config))


def _read_qwen3(config: Config, name: str) -> Architecture:
    _require(config, ("head_dim",), name)
    bias = bool(config.get("attention_bias", False))
    return _dense(
        config,
        name,
        qkv_bias=bias,
        o_bias=bias,
        qk_norm=True,
        kinds=_qwen_kinds(config),
    )


def _read_qwen2_moe(config: Config, name: str) -> Architecture:
    fields = (
        "num_experts", "num_experts_per_tok", "moe_intermediate_size",
        "shared_expert_intermediate_size",
    )  # fmt: skip
    _require(config, fields, name)
    experts = _experts(
        config,
        name,
        "num_experts",
        shared_intermediate=_size(config, "shared_expert_intermediate_size"),
        shared_gate=True,
    )
    bias = bool(config.get("qkv_bias", True))
    kinds = _qwen_kinds(config, sparse=_qwen_sparse(config))
    return _dense(config, name, qkv_bias=bias, experts=experts, kinds=kinds)


def _read_qwen3_moe(config: Config, name: str) -> Architecture:
    fields = ("head_dim", "num_experts", "num_experts_per_tok", "moe_intermediate_size")
    _require(config, fields, name)
    bias = bool(config.get("attention_bias", False))
    return _dense(
        config,
        name,
        qkv_bias=bias,
        o_bias=bias,
        qk_norm=True,
        experts=_experts(config, name, "num_experts"),
        kinds=_qwen_kinds(config, sparse=_qwen_sparse(config)),
    )


def _read_mixtral(config: Config, name: str) -> Architecture:
    _require(config, ("num_local_experts", "num_experts_per_tok"), name)
    experts = _experts(config, name, "num_local_experts", width_field="intermediate_size")
    kinds = _kinds(config, windowed=lambda layer: True, sparse=lambda layer: True)
    return _dense(config, name, experts=experts, kinds=kinds)


def _read_deepseek_v3(config: Config, name: str) -> Architecture:
    """MLA attention; the first `first_k_dense_replace` layers have a dense MLP."""
    fields = (
        "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "n_routed_experts",
        "n_shared_experts", "num_experts_per_tok", "moe_intermediate_size",
        "first_k_dense_replace",
    )  # fmt: skip
    _require(config, fields, name)
    rank = config.get("q_lora_rank")
    latent = LatentAttention(
        query_rank=None if rank is None else _size(config, "q_lora_rank"),
        kv_rank=_size(config, "kv_lora_rank"),
        rope_dim=_size(config, "qk_rope_head_dim"),
        nope_dim=_size(config, "qk_nope_head_dim"),
        value_dim=_size(config, "v_head_dim"),
    )
    width = _size(config, "moe_intermediate_size")
    experts = _experts(
        config,
        name,
        "n_routed_experts",
        shared_intermediate=width * _whole(config, "n_shared_experts"),
        correction_bias=config.get("topk_method", "noaux_tc") == "noaux_tc",
    )
    first = _whole(config, "first_k_dense_replace")
    every = _size(config, "moe_layer_freq", 1)
    kinds = _kinds(config, sparse=lambda layer: layer >= first and layer % every == 0)
    return _dense(config, name, latent=latent, experts=experts, kinds=kinds)


FAMILIES: dict[str, Callable[[Config, str], Architecture]] = {
    "llama": _read_llama,
    "mistral": _read_mistral,
    "mixtral": _read_mixtral,
    "qwen2": _read_qwen2,
    "qwen2_moe": _read_qwen2_moe,
    "qwen3": _read_qwen3,
    "qwen3_moe": _read_qwen3_moe,
    "deepseek_v3": _read_deepseek_v3,
}
"""By `model_type`."""


def _experts(
    config: Config, name: str, count_field: str, width_field: str = "moe_intermediate_size",
    **traits: Any,
) -> Experts:  # fmt: skip
    count, active = _size(config, count_field), _size(config, "num_experts_per_tok")
    if active > count:
        raise InputError(f"{name}: num_experts_per_tok {active} exceeds {count_field} {count}.")
    return Experts(
        count=count, active=active, intermediate=_size(config, width_field), **traits
    )  # fmt: skip


def _qwen_sparse(config: Config) -> Callable[[int], bool]:
    step = _size(config, "decoder_sparse_step", 1)
    dense = set(config.get("mlp_only_layers") or ())
    return lambda layer: layer not in dense and (layer + 1) % step == 0


def _qwen_kinds(
    config: Config, sparse: Callable[[int], bool] = lambda layer: False
) -> tuple[LayerKind, ...]:
    if not config.get("use_sliding_window", False):
        return _kinds(config, windowed=lambda layer: False, sparse=sparse)
    first = _whole(config, "max_window_layers")
    return _kinds(config, windowed=lambda layer: layer >= first, sparse=sparse)


def _kinds(
    config: Config,
    windowed: Callable[[int], bool] = lambda layer: False,
    sparse: Callable[[int], bool] = lambda layer: False,
) -> tuple[LayerKind, ...]:
    """Group layers that are alike, in order. `layer_types` in the configuration wins."""
    window = config.get("sliding_window")
    types = config.get("layer_types")
    layers = range(_layers(config))
    if isinstance(types, list | tuple) and len(types) == len(layers):
        windowed = lambda layer: types[layer] == "sliding_attention"  # noqa: E731
    traits = [(int(window) if window and windowed(i) else None, sparse(i)) for i in layers]
    return tuple(
        LayerKind(count=len(list(alike)), window=kind[0], sparse=kind[1])
        for kind, alike in groupby(traits)
    )


def _require(config: Config, fields: Iterable[str], name: str) -> None:
    missing = [field for field in fields if config.get(field) is None]
    if missing:
        raise InputError(
            f"{name}: the configuration lacks {_listed(missing)}.",
            f'A "{config.get("model_type")}" model has no size without it.',
        )


def _layers(config: Config) -> int:
    """Layers are walked one by one, so a number of them that no model has must not get through."""
    layers = _size(config, "num_hidden_layers")
    if layers > MAX_LAYERS:
        raise InputError(
            f'The configuration has "num_hidden_layers": {layers}, more than {MAX_LAYERS}.',
            "Correct the configuration.",
        )
    return layers


def _size(config: Config, field: str, default: int | None = None) -> int:
    value = config.get(field)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f'"{field}" must be a whole number from 1 on; it is {value!r}.')
    return value


def _whole(config: Config, field: str) -> int:
    value = config.get(field)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f'"{field}" must be a whole number; it is {value!r}.')
    return value


def _listed(fields: Iterable[str]) -> str:
    return ", ".join(f'"{field}"' for field in fields)
