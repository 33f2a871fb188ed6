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
) -> tuple[int, bool]:
    """FLOPs of a call, and whether they are modelled from a custom operator's name and shapes."""
    packet = getattr(func, "overloadpacket", func)
    if packet in flop_registry:
        return int(flop_registry[packet](*args, **kwargs, out_val=output)), False
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    if name in _OURS:
        return _OURS[name](args, output), False
    if name.startswith("aten.") and not name.startswith("aten._weight_int"):
        return 0, False
    return _custom_flops(name, tensors, output)


def _custom_flops(name: str, tensors: list[torch.Tensor], output: Any) -> tuple[int, bool]:
    outputs = output if isinstance(output, (tuple, list)) else (output,)
    results = [t for t in outputs if isinstance(t, torch.Tensor) and t.ndim]
    bare = name.split(".", 1)[-1]
    if ATTENTION_NAME.search(bare) and not NOT_ATTENTION.search(bare):
        heads = [t for t in tensors if t.ndim >= 3 and t.is_floating_point()][:3]
        if len(heads) == 3 and heads[0].ndim == 4 and heads[1].ndim == 4:
            query, key, value = (tuple(t.shape) for t in heads)
            if query[2] == key[2] and query[1] != key[1]:  # (batch, tokens, heads, size)
                query, key, value = (tuple(s[i] for i in (0, 2, 1, 3)) for s in (query, key, value))
            pairs = query[2] * key[2]
            return attention_flops(query, key, value, pairs), True
        return 0, True
    if PRODUCT_NAME.search(bare) and tensors:
        data = tensors[0]
        result = results[0] if results else None
        if result is not None and data.ndim >= 1:
            return 2 * result.numel() * data.shape[-1], True
        return 0, True
    return 0, False


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
