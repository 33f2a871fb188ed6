"""Arithmetic outside matrix products: FLOPs per element of norms, activations, softmax and so on.

The counts are those of the formulas, as in the theory: a SiLU is 4 (exp, add, divide, multiply), a
softmax 5 (max, subtract, exp, sum, divide). Casts, copies, comparisons and selections count 0.
Hardware counters will differ: exp and rsqrt run on units whose work is no FLOP.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

PER_OUTPUT = {
    "add": 1, "sub": 1, "rsub": 1, "mul": 1, "div": 1, "neg": 1, "abs": 1, "square": 1, "pow": 1,
    "rsqrt": 1, "sqrt": 1, "reciprocal": 1, "exp": 1, "exp2": 1, "log": 1, "log2": 1, "sin": 1,
    "cos": 1, "tanh": 1, "erf": 1, "maximum": 1, "minimum": 1, "clamp": 1, "relu": 1, "sigmoid": 3,
    "silu": 4, "gelu": 8, "hardswish": 4, "softplus": 3, "addcmul": 2, "addcdiv": 2, "lerp": 3,
    "_softmax": 5, "_log_softmax": 5, "_safe_softmax": 5, "cumsum": 1, "round": 1, "fmod": 2,
    "remainder": 2, "native_dropout": 2,
}  # fmt: skip

PER_INPUT = {
    "sum": 1, "mean": 1, "amax": 1, "amin": 1, "max": 1, "min": 1, "prod": 1, "var": 3, "std": 3,
    "var_mean": 3, "linalg_vector_norm": 2, "norm": 2, "logsumexp": 4, "argmax": 1, "argmin": 1,
    "native_layer_norm": 7, "native_group_norm": 7, "_fused_rms_norm": 4,
}  # fmt: skip

_CUSTOM = (("rms_norm", 4), ("rmsnorm", 4), ("layer_norm", 7), ("silu", 5), ("swiglu", 5),
           ("gelu", 9), ("rotary", 3), ("rope", 3))  # fmt: skip


def elementwise_flops(
    name: str, args: tuple[Any, ...], output: Any, written: Iterable[torch.Tensor] = ()
) -> int:
    """FLOPs of one call outside matrix products; 0 for what is no floating-point arithmetic.

    `written` are the tensors that the call writes: custom operators are counted by their size.
    """
    first = output[0] if isinstance(output, (tuple, list)) and output else output
    inputs = [a for a in args if isinstance(a, torch.Tensor)]
    base = name.split(".", 1)[-1]
    if not name.startswith("aten."):
        rate = next((rate for word, rate in _CUSTOM if word in base), 0)
        return rate * sum(tensor.numel() for tensor in written if tensor.is_floating_point())
    if base not in PER_OUTPUT and base not in PER_INPUT:
        base = base.removesuffix("_")
    if base in PER_OUTPUT and isinstance(first, torch.Tensor):
        numbers = first.numel() if first.is_floating_point() or first.is_complex() else 0
        return PER_OUTPUT[base] * numbers
    if base in PER_INPUT and inputs and inputs[0].is_floating_point():
        return PER_INPUT[base] * inputs[0].numel()
    return 0
