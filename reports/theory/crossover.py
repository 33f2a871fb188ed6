"""From how many tokens on a projection is limited by the peak instead of the bandwidth.

A product [M, K] x [K, N] with weights of w bytes in all and activations of b bytes per element has
intensity 2MKN / (w + b M (K + N)). Set equal to the ridge I* and solved for M:

    M* = I* w / (2KN - I* b (K + N))

With unquantised weights (w = bKN) that is x / (1 - x (1/K + 1/N)) with x = I* b/2. Where the
denominator is not positive the product never gets there: its limit (2/b) KN/(K+N) is lower.
The bias (1/K of the weight) is left out, as in the formula.
"""

from __future__ import annotations

import math

from rooflens.model import Roof
from rooflens.reports.theory.architecture import Architecture, Experts
from rooflens.reports.theory.floor import printed_ridge
from rooflens.reports.theory.formats import Format, activation_format, number_format
from rooflens.reports.theory.layers import expected_distinct_experts
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory

FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
"""Projections that engines do in one product, and of what it is made."""


def crossover_tokens(
    k: int, n: int, ridge: float, *, activation: Format, weight: Format
) -> float | None:
    """Tokens at which [M, k] x [k, n] reaches the ridge; None when it never does."""
    bytes_per_token = (k + n) * activation.bits / 8
    gain = 2 * k * n - ridge * bytes_per_token
    if gain <= 0:
        return None
    return ridge * weight.matrix_bytes(k, n) / gain


def step_crossovers(
    theory: StepTheory, ridge: float, *, activation: Format, weight: Format
) -> dict[str, float | None]:
    """Crossover of every projection class of a step, the usual fused ones and lm_head included.

    A class with several products (MLA) appears with the name of each: `q_proj (q_a_proj)`.
    """
    found: dict[str, tuple[int, int]] = {}
    for operator in theory.operators:
        if operator.matrix is not None:
            label = operator.name
            if operator.detail:
                label = f"{label} ({operator.detail})"
            found.setdefault(label, operator.matrix)
    for fused, parts in FUSED.items():
        if all(part in found for part in parts):
            found[fused] = (found[parts[0]][0], sum(found[part][1] for part in parts))
    tokens = {
        name: crossover_tokens(
            k, n, ridge, activation=activation, weight=activation if name == "lm_head" else weight
        )
        for name, (k, n) in found.items()
    }
    model = theory.architecture
    if model.experts is not None:
        sizes = model.hidden, model.experts.intermediate // theory.shape.tp
        tokens["experts (up_proj)"] = expert_crossover_tokens(
            model.experts, *sizes, ridge, activation=activation, weight=weight
        )
    return tokens


def expert_crossover_tokens(
    experts: Experts, k: int, n: int, ridge: float, *, activation: Format, weight: Format
) -> float | None:
    """Tokens of a step at which the routed experts' up product reaches the ridge; None: never.

    2 T a K N FLOP (a active experts per token) over hit(T) w + b T (K + a N) bytes, with the
    expected number of experts hit. It grows with T, so the crossing is found by halving.
    """
    element_bytes = activation.bits / 8
    expert_bytes = weight.matrix_bytes(k, n)

    def intensity(tokens: float) -> float:
        hit = expected_distinct_experts(experts.count, experts.active, tokens)
        moved = hit * expert_bytes + element_bytes * tokens * (k + experts.active * n)
        return 2 * tokens * experts.active * k * n / moved

    low, high = 0.0, 2.0**40
    if intensity(high) <= ridge:
        return None
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if intensity(middle) >= ridge else (middle, high)
    return high


def projection_crossovers(
    architecture: Architecture, shape: StepShape, roof: Roof
) -> dict[str, float | None]:
    """Crossovers of a step's projections at the printed ridge of a roof."""
    activation = activation_format(shape.dtype)
    weight = number_format(shape.weights_dtype or activation.name, "--weights-dtype")
    theory = step_theory(architecture, shape)
    return step_crossovers(theory, printed_ridge(roof), activation=activation, weight=weight)


def attention_crossover_queries(
    query_heads: int, kv_heads: int, ridge: float, *, element_bytes: float = 2,
    keys: float = math.inf,
) -> float | None:  # fmt: skip
    """New tokens s at which full attention over L keys reaches the ridge (verify, chunks).

    (2/b) n_q s L / (n_kv L + n_q s) = I* gives s = x n_kv L / (n_q (L - x)), x = I* b/2; on a very
    long context x n_kv / n_q. None when L <= x: such an attention never gets there.
    """
    x = ridge * element_bytes / 2
    if math.isinf(keys):
        return x * kv_heads / query_heads
    return None if keys <= x else x * kv_heads * keys / (query_heads * (keys - x))


def attention_crossover_prompt(
    query_heads: int, kv_heads: int, ridge: float, *, element_bytes: float = 2, causal: bool = True
) -> float:
    """Length of a prompt from which its attention is compute-bound.

    The intensity is (2/b) S n_q/(n_q + n_kv), causal half of that with S + 1 for S.
    """
    per_token = 2 / element_bytes * query_heads / (query_heads + kv_heads)
    return 2 * ridge / per_token - 1 if causal else ridge / per_token
