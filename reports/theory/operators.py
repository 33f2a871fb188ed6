"""Operators as formulas: shapes in, FLOPs and bytes out.

Every function here describes one call of an ideal kernel: each input is read once, each output is
written once, nothing else moves. Sizes are in elements, results in bytes and FLOP (1 MAC = 2 FLOP).
Names: t = tokens, d = hidden size, b = bytes per element of an activation. Attention is in
attention.py.
"""

from __future__ import annotations

from rooflens.quantity import Record
from rooflens.reports.theory.formats import Format

TOKEN_ID_BYTES = 8
"""Token ids are int64."""


class OperatorTheory(Record, frozen=True, kw_only=True, gc=False):
    """One operator of a step; FLOPs and bytes are per call."""

    name: str
    """Operator class of rooflens/vocabulary.py."""
    detail: str = ""
    """Which of several operators of the class: `input_layernorm`, `kv_b_proj` ..."""
    count: int = 1
    """Calls per step."""
    shape: str
    flops: int
    bytes_in: int
    bytes_out: int
    tensor: bool = False
    """A matrix product (or attention): its FLOPs run on matrix units."""
    weight_bytes: int = 0
    """The part of bytes_in that is weights, norms' and biases' included."""
    link_bytes: int = 0
    """Bytes that this rank sends to other GPUs."""
    matrix: tuple[int, int] | None = None
    """(K, N) of a dense projection; intensity then depends on the tokens alone."""

    @property
    def bytes(self) -> int:
        """Bytes in and out of one call."""
        return self.bytes_in + self.bytes_out

    @property
    def intensity(self) -> float:
        """FLOP per byte of one call (0 where nothing moves)."""
        return self.flops / self.bytes if self.bytes else 0.0


def gemm(
    m: int, k: int, n: int, *, activation: Format, weight: Format, bias: bool = False,
    name: str = "other", detail: str = "",
) -> OperatorTheory:  # fmt: skip
    """[m, k] x [k, n] (+ bias [n]).

    Each of the m x n outputs sums k products: 2mkn FLOP. Read: m*k activations, the weight with its
    scales, the bias; written: m*n. Without bias and scales the intensity is
    (2/b) / (1/m + 1/k + 1/n). Adding the bias is not counted as FLOP.
    """
    weight_bytes = weight.matrix_bytes(k, n) + (activation.plain_bytes(n) if bias else 0)
    return OperatorTheory(
        name=name,
        detail=detail,
        shape=f"[{m},{k}]x[{k},{n}]",
        flops=2 * m * k * n,
        bytes_in=activation.plain_bytes(m * k) + weight_bytes,
        bytes_out=activation.plain_bytes(m * n),
        tensor=True,
        weight_bytes=weight_bytes,
        matrix=(k, n),
    )


def per_head_gemm(
    tokens: int, heads: int, k: int, n: int, *, activation: Format, weight: Format, name: str,
    detail: str,
) -> OperatorTheory:  # fmt: skip
    """[tokens, heads, k] x [heads, k, n]: one small matrix per head (MLA's absorbed products).

    2*tokens*heads*k*n FLOP; the matrices are read once whatever the number of tokens.
    """
    weight_bytes = weight.matrix_bytes(k, heads * n)
    return OperatorTheory(
        name=name,
        detail=detail,
        shape=f"[{tokens},{heads},{k}]x[{heads},{k},{n}]",
        flops=2 * tokens * heads * k * n,
        bytes_in=activation.plain_bytes(tokens * heads * k) + weight_bytes,
        bytes_out=activation.plain_bytes(tokens * heads * n),
        tensor=True,
        weight_bytes=weight_bytes,
    )


def embedding(tokens: int, hidden: int, *, activation: Format) -> OperatorTheory:
    """Look up one row per token: reads the ids and the rows (never the table), writes the rows."""
    rows = activation.plain_bytes(tokens * hidden)
    return OperatorTheory(
        name="embedding",
        shape=f"[{tokens}]->[{tokens},{hidden}]",
        flops=0,
        bytes_in=tokens * TOKEN_ID_BYTES + rows,
        bytes_out=rows,
    )


def norm(
    vectors: int, width: int, *, activation: Format, detail: str, centred: bool = False,
    shape: str = "",
) -> OperatorTheory:  # fmt: skip
    """RMSNorm over `vectors` rows of `width`: square, sum, scale, multiply by the weight = 4 FLOP.

    LayerNorm (`centred`) also sums and subtracts the mean and adds a bias: 7 FLOP and two weights
    of `width`. Square root and division are once per row and not counted.
    """
    weight_bytes = activation.plain_bytes(width * (2 if centred else 1))
    elements = vectors * width
    return OperatorTheory(
        name="norm",
        detail=detail,
        shape=shape or f"[{vectors},{width}]",
        flops=(7 if centred else 4) * elements,
        bytes_in=activation.plain_bytes(elements) + weight_bytes,
        bytes_out=activation.plain_bytes(elements),
        weight_bytes=weight_bytes,
    )


def rope(
    tokens: int, heads: int, kv_heads: int, width: int, positions: int, *, activation: Format,
    cache: Format,
) -> OperatorTheory:  # fmt: skip
    """Rotate queries and keys: x*cos + rotated(x)*sin = 3 FLOP per element.

    Reads q, k and the cos and sin of each distinct position; writes q, and k straight into the
    cache (in the cache's format).
    """
    q, k = tokens * heads * width, tokens * kv_heads * width
    return OperatorTheory(
        name="rope",
        shape=f"[{tokens},{heads}+{kv_heads},{width}]",
        flops=3 * (q + k),
        bytes_in=activation.plain_bytes(q + k + 2 * positions * width),
        bytes_out=activation.plain_bytes(q) + cache.vectors_bytes(tokens * kv_heads, width),
    )


def kv_write(
    tokens: int, kv_heads: int, width: int, *, activation: Format, cache: Format
) -> OperatorTheory:
    """Copy new keys and values into the cache, when a program does that in a step of its own.

    The ideal step has none: rope and v_proj write into the cache.
    """
    return OperatorTheory(
        name="kv_write",
        detail="append",
        shape=f"2x[{tokens},{kv_heads},{width}]",
        flops=0,
        bytes_in=activation.plain_bytes(2 * tokens * kv_heads * width),
        bytes_out=cache.vectors_bytes(2 * tokens * kv_heads, width),
    )


def residual(tokens: int, hidden: int, *, activation: Format, detail: str) -> OperatorTheory:
    """Add two tensors [tokens, hidden]: 1 FLOP per element, two reads, one write."""
    size = activation.plain_bytes(tokens * hidden)
    return OperatorTheory(
        name="residual",
        detail=detail,
        shape=f"[{tokens},{hidden}]",
        flops=tokens * hidden,
        bytes_in=2 * size,
        bytes_out=size,
    )


def gated_activation(
    tokens: int, width: int, *, activation: Format, name: str = "activation"
) -> OperatorTheory:
    """silu(gate) * up: exp, add, divide and two products = 5 FLOP per element."""
    size = activation.plain_bytes(tokens * width)
    return OperatorTheory(
        name=name,
        detail="silu*up",
        shape=f"[{tokens},{width}]",
        flops=5 * tokens * width,
        bytes_in=2 * size,
        bytes_out=size,
    )


def plain_activation(
    tokens: int, width: int, *, activation: Format, flops_per_element: int = 1, detail: str = "relu"
) -> OperatorTheory:
    """An activation without a gate; ReLU is 1 FLOP per element: intensity 1/4 at 2 bytes."""
    size = activation.plain_bytes(tokens * width)
    return OperatorTheory(
        name="activation",
        detail=detail,
        shape=f"[{tokens},{width}]",
        flops=flops_per_element * tokens * width,
        bytes_in=size,
        bytes_out=size,
    )


def sampling(sequences: int, vocab: int, *, activation: Format) -> OperatorTheory:
    """Greedy choice: one comparison per logit, reads the logits, writes one id per sequence."""
    return OperatorTheory(
        name="sampling",
        detail="argmax",
        shape=f"[{sequences},{vocab}]->[{sequences}]",
        flops=sequences * vocab,
        bytes_in=activation.plain_bytes(sequences * vocab),
        bytes_out=sequences * TOKEN_ID_BYTES,
    )


def all_reduce(tokens: int, hidden: int, ranks: int, *, activation: Format) -> OperatorTheory:
    """Sum [tokens, hidden] over all ranks with a ring.

    Every rank sends 2(r-1)/r of the tensor over the link (reduce-scatter, then all-gather); its own
    memory is read and written once. The sums are (r-1)/r FLOP per element.
    """
    size = activation.plain_bytes(tokens * hidden)
    return OperatorTheory(
        name="communication",
        detail="all-reduce",
        shape=f"[{tokens},{hidden}] over {ranks}",
        flops=tokens * hidden * (ranks - 1) // ranks,
        bytes_in=size,
        bytes_out=size,
        link_bytes=-(-2 * size * (ranks - 1) // ranks),
    )


def all_gather(rows: int, width: int, ranks: int, *, activation: Format) -> OperatorTheory:
    """Collect [rows, width] of which each rank holds 1/r: a rank sends (r-1)/r of the whole."""
    size = activation.plain_bytes(rows * width)
    own = -(-size // ranks)
    return OperatorTheory(
        name="communication",
        detail="all-gather",
        shape=f"[{rows},{width}] over {ranks}",
        flops=0,
        bytes_in=own,
        bytes_out=size - own,
        link_bytes=own * (ranks - 1),
    )
