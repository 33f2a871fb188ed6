"""Bytes of a tensor by number format, scales included.

A weight is a matrix [K, N]: K is the dimension that the product sums over, N the output channels.
A cache entry is a vector (one key or value of one head). Scales are counted where an engine stores
them; a scale for a whole tensor of the cache is a kernel argument and counts nothing.

| name | bits | scale | as used by |
|---|--:|---|---|
| float64 ... float16 | 64 ... 16 | none | |
| fp8 | 8 | one float32 per tensor | vLLM, TensorRT-LLM per-tensor fp8 |
| fp8-block | 8 | one float32 per 128 x 128 block | DeepSeek-V3 checkpoints |
| int8 | 8 | weights: float32 per output channel; cache: float16 per vector | W8A8, W8A16 |
| int4 | 4 | float16 per 128 weights of a channel | GPTQ, Marlin (symmetric) |
| int4-gG | 4 | the same per G weights | |
| awq | 4 | float16 and a 4-bit zero point per 128 weights | AWQ |
| fp4 | 4 | 8 bits per 16 elements, float32 per tensor | NVFP4 |
| mxfp4 | 4 | 8 bits per 32 elements | OCP MX |
"""

from __future__ import annotations

import re
from functools import lru_cache

from rooflens.errors import UsageError, did_you_mean
from rooflens.quantity import Record
from rooflens.units import DTYPE_ALIASES

_BLOCK = 128


class Format(Record, frozen=True, kw_only=True):
    """How one element is stored, and which scales go with it (all sizes in bits)."""

    name: str
    bits: int
    tensor_bits: int = 0
    """Once per tensor."""
    channel_bits: int = 0
    """Once per output channel of a weight."""
    vector_bits: int = 0
    """Once per cached vector."""
    group: int = 0
    group_bits: int = 0
    """Once per `group` elements along K of a weight, or along a cached vector."""
    block_bits: int = 0
    """Once per 128 x 128 block of a weight."""

    def matrix_bytes(self, k: int, n: int) -> int:
        """Bytes of a weight [k, n] with its scales."""
        bits = k * n * self.bits + self.tensor_bits + n * self.channel_bits
        if self.group:
            bits += n * _ceil_div(k, self.group) * self.group_bits
        if self.block_bits:
            bits += _ceil_div(k, _BLOCK) * _ceil_div(n, _BLOCK) * self.block_bits
        return _ceil_div(bits, 8)

    def vectors_bytes(self, vectors: int, length: int) -> int:
        """Bytes of `vectors` cache entries of `length` elements with their scales."""
        bits = length * self.bits + self.vector_bits
        if self.group:
            bits += _ceil_div(length, self.group) * self.group_bits
        return vectors * _ceil_div(bits, 8)

    def plain_bytes(self, elements: int) -> int:
        """Bytes of elements without scales: activations and everything that is not quantised."""
        return (elements * self.bits + 7) // 8


_PLAIN = {"float64": 64, "float32": 32, "tf32": 32, "bfloat16": 16, "float16": 16}

FORMATS: dict[str, Format] = {
    **{name: Format(name=name, bits=bits) for name, bits in _PLAIN.items()},
    "fp8": Format(name="fp8", bits=8, tensor_bits=32),
    "fp8-block": Format(name="fp8-block", bits=8, block_bits=32),
    "int8": Format(name="int8", bits=8, channel_bits=32, vector_bits=16),
    "int4": Format(name="int4", bits=4, group=128, group_bits=16),
    "awq": Format(name="awq", bits=4, group=128, group_bits=20),
    "fp4": Format(name="fp4", bits=4, tensor_bits=32, group=16, group_bits=8),
    "mxfp4": Format(name="mxfp4", bits=4, group=32, group_bits=8),
}
_ALIASES = {
    **DTYPE_ALIASES, "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "nvfp4": "fp4", "gptq": "int4",
}  # fmt: skip

COMPUTE_DTYPES = ("float64", "float32", "tf32", "bfloat16", "float16", "fp8", "int8", "fp4")
"""What `--dtype` may be: the format of activations and of the products."""


@lru_cache(maxsize=256)
def number_format(name: str, option: str = "--dtype") -> Format:
    """The format of a name as people type it: `bf16`, `fp8`, `int4`, `int4-g64`.

    Raises UsageError that names `option` for an unknown name.
    """
    lowered = name.lower().removeprefix("torch.")
    lowered = _ALIASES.get(lowered, lowered)
    if lowered in FORMATS:
        return FORMATS[lowered]
    grouped = re.fullmatch(r"int4-g(\d{1,5})", lowered)
    if grouped and int(grouped[1]) > 0:
        return Format(name=lowered, bits=4, group=int(grouped[1]), group_bits=16)
    raise UsageError(f'{option}: unknown number format "{name}".', did_you_mean(name, FORMATS))


def compute_dtype(name: str) -> str:
    """The full name of an activation dtype; UsageError when products are not done in it."""
    found = number_format(name, "--dtype").name
    if found not in COMPUTE_DTYPES:
        raise UsageError(
            f'--dtype: "{name}" stores weights, activations are not kept in it.',
            f"Use --weights-dtype {name} with --dtype bfloat16.",
        )
    return found


def activation_format(name: str) -> Format:
    """The plain format, without scales, of an activation dtype."""
    full = compute_dtype(name)
    return Format(name=full, bits=FORMATS[full].bits)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
