"""A step as a sum of operators: totals, compulsory bytes, weights and KV cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from rooflens.errors import UsageError
from rooflens.quantity import Record
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.attention import Span, past_keys_read
from rooflens.reports.theory.formats import activation_format, number_format
from rooflens.reports.theory.layers import Plan, cache_bytes_per_token, step_operators
from rooflens.reports.theory.operators import TOKEN_ID_BYTES, OperatorTheory, sampling

MAX_TOKENS = 10**15


class StepShape(Record, frozen=True, kw_only=True):
    """What a step is asked to do. Keys attended = context + query tokens."""

    workload: str = "decode"
    batch: int = 1
    context: int = 2047
    """Tokens of each sequence already in the cache."""
    query_tokens: int = 1
    """New tokens of each sequence: 1 decode, k+1 verify, the prompt (or a chunk) prefill."""
    logits: str = "last"
    """`last`: of each sequence's last token; `all`: of every new token. A verify step needs all."""
    dtype: str = "bfloat16"
    weights_dtype: str | None = None
    """Format of the layers' projections; None is `dtype`."""
    kv_dtype: str | None = None
    tp: int = 1
    """Tensor-parallel ranks; the step is that of one rank."""
    contexts: tuple[int, ...] = ()
    """Cached tokens per sequence when they differ (continuous batching); replaces `context`."""
    queries: tuple[int, ...] = ()
    """New tokens per sequence when they differ (a prefill chunk among decodes)."""
    fused: bool = True
    """False: scores pass through memory (QK^T, softmax, PV as three kernels), and new keys and
    values are copied into the cache."""
    absorbed: bool | None = None
    """MLA only: queries meet the latents. None: yes unless the step is a prefill."""
    sampling: bool = False
    """Include the greedy choice of the next token."""

    @property
    def sequences(self) -> int:
        """Sequences in the batch."""
        return len(self.contexts) or len(self.queries) or self.batch

    @property
    def tokens(self) -> int:
        """New tokens of the step."""
        return sum(s.count * s.query for s in self.spans())

    def spans(self) -> tuple[Span, ...]:
        """Groups of sequences that are alike, in order of first appearance."""
        if not self.contexts and not self.queries:
            return (Span(count=self.batch, query=self.query_tokens, context=self.context),)
        n = self.sequences
        contexts = self.contexts or (self.context,) * n
        queries = self.queries or (self.query_tokens,) * n
        groups = Counter(zip(queries, contexts, strict=True))
        return tuple(Span(count=n, query=q, context=c) for (q, c), n in groups.items())


class StepTheory(Record, frozen=True, kw_only=True):
    """One step (of one tensor-parallel rank) as its operators, and their sums."""

    architecture: Architecture
    shape: StepShape
    operators: tuple[OperatorTheory, ...]
    tensor_flops: int
    """Matrix products and attention."""
    flops: int
    """All FLOPs."""
    ideal_op_bytes: int
    """Every operator by itself: inputs read once, outputs written once."""
    compulsory_bytes: int
    """Perfect fusion of the whole step: weights, ids, embedding rows, KV cache, logits."""
    weight_bytes_read: int
    """Weights of the step: all but the embedding table (which a tied head reads)."""
    kv_bytes_per_token: int
    link_bytes: int
    """Sent to other ranks."""

    @property
    def intensity(self) -> float:
        """FLOP per compulsory byte."""
        return self.flops / self.compulsory_bytes

    @property
    def ideal_intensity(self) -> float:
        """FLOP per ideal-op byte."""
        return self.flops / self.ideal_op_bytes


def step_theory(architecture: Architecture, shape: StepShape) -> StepTheory:
    """The theory of one step.

    Raises UsageError for a shape that cannot be (sizes below 1, a tp that does not divide).
    """
    check_shape(architecture, shape)
    plan = _plan(shape)
    operators = _merged(step_operators(architecture, plan))
    if shape.sampling:
        operators += (sampling(shape.sequences, architecture.vocab, activation=plan.activation),)
    flops = tensor_flops = ideal_bytes = weight_bytes = link_bytes = 0
    for o in operators:
        flops += o.count * o.flops
        tensor_flops += o.count * o.flops if o.tensor else 0
        ideal_bytes += o.count * o.bytes
        weight_bytes += o.count * o.weight_bytes
        link_bytes += o.count * o.link_bytes
    per_token = cache_bytes_per_token(architecture, plan.cache, shape.tp)
    return StepTheory(
        architecture=architecture,
        shape=shape,
        operators=operators,
        tensor_flops=tensor_flops,
        flops=flops,
        ideal_op_bytes=ideal_bytes,
        compulsory_bytes=weight_bytes + _unavoidable_bytes(architecture, plan, per_token),
        weight_bytes_read=weight_bytes,
        kv_bytes_per_token=per_token,
        link_bytes=link_bytes,
    )


def _unavoidable_bytes(model: Architecture, plan: Plan, kv_bytes_per_token: int) -> int:
    """Ids, embedding rows, past KV read, new KV written, logits written."""
    tokens, activation = plan.tokens, plan.activation
    per_layer = kv_bytes_per_token // model.layers
    cached = 0
    for kind in model.kinds:
        for span in plan.spans:
            # A later step sees at most the window, so no more has to be kept.
            written = span.query if kind.window is None else min(span.query, kind.window)
            read = past_keys_read(span, kind.window)
            cached += kind.count * span.count * (read + written) * per_layer
    logits = activation.plain_bytes(plan.logits_rows * (model.vocab // plan.ranks))
    rows = activation.plain_bytes(tokens * model.hidden)
    return tokens * TOKEN_ID_BYTES + rows + cached + logits


def _plan(shape: StepShape) -> Plan:
    spans = shape.spans()
    tokens = sum(s.count * s.query for s in spans)
    activation = activation_format(shape.dtype)
    absorbed, verify = shape.absorbed, shape.workload == "verify"
    return Plan(
        spans=spans,
        tokens=tokens,
        activation=activation,
        weight=number_format(shape.weights_dtype or activation.name, "--weights-dtype"),
        cache=number_format(shape.kv_dtype or activation.name, "--kv-dtype"),
        # Each drafted token is accepted or refused by its own logits, whatever was asked for.
        logits_rows=tokens if shape.logits == "all" or verify else shape.sequences,
        ranks=shape.tp,
        fused=shape.fused,
        absorbed=shape.workload != "prefill" if absorbed is None else absorbed,
    )


def _merged(calls: Iterable[tuple[OperatorTheory, int]]) -> tuple[OperatorTheory, ...]:
    """Sum the counts of operators that are alike in everything else, in order of appearance."""
    counts: dict[OperatorTheory, int] = {}
    for operator, count in calls:
        counts[operator] = counts.get(operator, 0) + count
    return tuple(
        operator if count == 1 else msgspec.structs.replace(operator, count=count)
        for operator, count in counts.items()
    )


def check_shape(model: Architecture, shape: StepShape) -> None:
    """Raise UsageError when the step cannot be."""
    _check_sizes(shape)
    if shape.logits not in ("last", "all"):
        raise UsageError(f'--logits must be "last" or "all"; it is "{shape.logits}".')
    ranks = shape.tp
    if ranks == 1:
        return
    if model.query_heads % ranks:
        raise UsageError(f"--tp {ranks} does not divide the {model.query_heads} attention heads.")
    shared = model.kv_heads % ranks and ranks % model.kv_heads
    if shared and model.latent is None:
        raise UsageError(f"--tp {ranks} does not divide the {model.kv_heads} key/value heads.")
    widths = {"vocabulary": model.vocab}
    if any(not kind.sparse for kind in model.kinds):
        widths["MLP width"] = model.intermediate
    if model.experts is not None:
        widths["expert width"] = model.experts.intermediate
        widths["shared expert width"] = model.experts.shared_intermediate
    for what, width in widths.items():
        if width % ranks:
            raise UsageError(f"--tp {ranks} does not divide the {what} {width}.")


def _check_sizes(shape: StepShape) -> None:
    for option, value, least in (
        ("--batch", shape.batch, 1),
        ("--query-tokens", shape.query_tokens, 1),
        ("--context", shape.context, 0),
        ("--tp", shape.tp, 1),
        *(("--contexts", value, 0) for value in shape.contexts),
        *(("--queries", value, 1) for value in shape.queries),
    ):
        if not least <= value <= MAX_TOKENS:
            raise UsageError(f"{option} must be {least} or more (and at most 1e15); it is {value}.")
    if shape.contexts and shape.queries and len(shape.contexts) != len(shape.queries):
        raise UsageError(
            f"--contexts names {len(shape.contexts)} sequences, --queries {len(shape.queries)}."
        )
