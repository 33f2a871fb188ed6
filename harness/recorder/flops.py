"""Matrix-product and attention FLOPs of one call (1 MAC = 2 FLOP).

torch's own formulas (`torch.utils.flop_counter`) are used wherever it has one. Ours fill its gaps:
attention on the CPU and with grouped heads, matrix-vector products, integer and packed products,
and custom operators, which are recognised by name and counted by shape (`modelled`).

Convention: an op counts what the call computes. A fused causal attention computes the causal
(query, key) pairs only, S(S+1)/2 of S^2; an explicit mask or the eager formulation computes all of
them. Softmax, norms and other arithmetic are `elementwise_flops` (elementwise.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

PRODUCT_NAME = re.compile(r"(mm|matmul|linear|gemm|gemv|dot)(_|$|\d|\.)|marlin|awq|gptq|qmm", re.I)
ATTENTION_NAME = re.compile(r"attention|attn|flash_fwd|mha|sdpa", re.I)
NOT_ATTENTION = re.compile(r"mask|cache|rope|rotary|merge|combine|norm", re.I)


@lru_cache(maxsize=1024)
def attention_pairs(
    queries: int, keys: int, causal: bool, *, bottom_right: bool = False, window: int | None = None
) -> int:
    """(query, key) pairs that attention computes for one head of one sequence.

    torch aligns a causal mask with the first key (query i sees i + 1 keys); FlashAttention 2
    (`bottom_right`) with the last (the last query sees all keys). `window` keeps the last keys.
    """
    if not causal and window is None:
        return queries * keys
    offset = keys - queries if bottom_right else 0
    if window is None and offset >= 0 and queries + offset <= keys:
        return queries * offset + queries * (queries + 1) // 2
    total = 0
    for query in range(queries):
        seen = min(keys, max(0, query + offset + 1)) if causal else keys
        total += seen if window is None else min(seen, window)
    return total


def attention_flops(
    query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], pairs: int
) -> int:
    """FLOPs of QK^T and PV for (batch, heads, tokens, head size) shapes.

    All query heads compute, however few key heads there are.
    """
    heads = 1
    for length in query[:-2]:
        heads *= length
    return 2 * heads * pairs * (query[-1] + value[-1])


def matrix_flops(
    func: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    output: Any,
    written: Sequence[torch.Tensor] = (),
) -> tuple[int, bool]:
    """FLOPs of a call, and whether they are modelled from a custom operator's name and shapes.

    `written` are the tensors that the call writes, in place or new.
    """
    packet = getattr(func, "overloadpacket", func)
    if packet in flop_registry:
        return int(flop_registry[packet](*args, **kwargs, out_val=output)), False
    if name in _OURS:
        return _OURS[name](args, output), False
    if name.startswith("aten.") and not name.startswith("aten._weight_int"):
        return 0, False
    bare = name.split(".", 1)[-1]
    own = {id(tensor) for tensor in written}
    given = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    read = [tensor for tensor in given if id(tensor) not in own]
    if ATTENTION_NAME.search(bare) and not NOT_ATTENTION.search(bare):
        return _custom_attention(read, _is_causal(func, args, kwargs)), True
    if PRODUCT_NAME.search(bare):
        results = [tensor for tensor in written if tensor.ndim]
        known = read and read[0].ndim and results
        return (2 * results[0].numel() * read[0].shape[-1] if known else 0), True
    return 0, False


def _custom_attention(tensors: list[torch.Tensor], causal: bool) -> int:
    """FLOPs of a custom attention whose q, k and v are (batch, heads, tokens, size); else 0."""
    heads = [t for t in tensors if t.is_floating_point() and t.ndim >= 3][:3]
    if len(heads) < 3 or any(tensor.ndim != 4 for tensor in heads):
        return (
            0  # packed sequences or a paged cache: how many keys are attended is not in the shapes
        )
    query, key, value = (tuple(tensor.shape) for tensor in heads)
    pairs = attention_pairs(query[2], key[2], causal and query[2] > 1, bottom_right=True)
    return attention_flops(query, key, value, pairs)


def _is_causal(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    schema = getattr(func, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema is not None else []
    given = dict(zip(names, args, strict=False)) | kwargs
    return any(given.get(name) is True for name in ("causal", "is_causal"))


_OURS = {
    "aten.mv": lambda args, out: 2 * args[0].numel(),
    "aten.addmv": lambda args, out: 2 * args[1].numel(),
    "aten.dot": lambda args, out: 2 * args[0].numel(),
    "aten.vdot": lambda args, out: 2 * args[0].numel(),
    "aten.linear": lambda args, out: 2 * out.numel() * args[0].shape[-1],
    "aten._int_mm": lambda args, out: 2 * out.numel() * args[0].shape[-1],
    "aten._grouped_mm": lambda args, out: 2 * out.numel() * args[0].shape[-1],
    "aten.addbmm": lambda args, out: 2 * args[1].numel() * args[2].shape[-1],
    "aten.addmm_": lambda args, out: 2 * args[1].numel() * args[2].shape[-1],
    "aten.baddbmm_": lambda args, out: 2 * args[1].numel() * args[2].shape[-1],
    "aten.addr": lambda args, out: 2 * out.numel(),
}
