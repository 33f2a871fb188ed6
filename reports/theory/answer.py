"""What `profile theory` answers: a step's operators and totals, and with a roof its floors.

An Answer is complete: renderers (rendering/) only place and format what it holds.
"""

from __future__ import annotations

from msgspec.structs import replace

from rooflens.model import Roof
from rooflens.quantity import Record
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.crossover import crossover_tokens, projection_crossovers
from rooflens.reports.theory.floor import (
    StepFloors,
    bound,
    floor_ns,
    operator_floor_ns,
    printed_ridge,
    ridge,
    step_floors,
)
from rooflens.reports.theory.formats import Format, activation_format, compute_dtype, number_format
from rooflens.reports.theory.gpus import Gpu
from rooflens.reports.theory.operators import OperatorTheory
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory
from rooflens.units import NS_PER_S


class OperatorAnswer(Record, frozen=True, kw_only=True):
    """One operator with its verdict on the roof; `floor_ns` is per call, None without a roof."""

    operator: OperatorTheory
    bound: str
    floor_ns: float | None


class AnswerTotals(Record, frozen=True, kw_only=True):
    """Sums of the step. None where the workload has no such thing (a bare GEMM has no cache)."""

    params: int | None
    tensor_flops: int
    flops: int
    ideal_op_bytes: int
    compulsory_bytes: int
    kv_bytes_per_token: int | None
    weight_bytes_read: int | None

    @property
    def intensity(self) -> float:
        """FLOP per compulsory byte."""
        return self.flops / self.compulsory_bytes


class Answer(Record, frozen=True, kw_only=True):
    """Everything that `profile theory` prints."""

    workload: str
    model: str | None
    gpu: str | None
    dtype: str
    weights_dtype: str
    kv_dtype: str
    batch: int | None = None
    context: int | tuple[int, ...] | None = None
    query_tokens: int | tuple[int, ...] | None = None
    tp: int = 1
    link_bytes: int = 0
    operators: tuple[OperatorAnswer, ...]
    totals: AnswerTotals
    roof: Roof | None = None
    floors: StepFloors | None = None
    crossover_tokens: dict[str, float | None] = {}
    """None: never compute-bound on this roof."""
    notes: tuple[str, ...] = ()
    """What a reader must know to use the numbers."""
    disagreements: tuple[str, ...] = ()
    """Where public sources disagree about the GPU."""

    @property
    def ridge(self) -> float | None:
        """FLOP per byte of the roof."""
        return None if self.roof is None else ridge(self.roof)

    @property
    def bound(self) -> str:
        """What limits the step: tensor FLOPs against compulsory bytes."""
        return bound(self.totals.tensor_flops, self.totals.compulsory_bytes, self.roof)


def step_answer(
    architecture: Architecture, shape: StepShape, gpu: Gpu | None, accumulate: str = "float32"
) -> Answer:
    """The answer for a step of a model. Raises UsageError as `step_theory` and `Gpu.peak` do."""
    theory = step_theory(architecture, shape)
    roof = None if gpu is None else gpu.roof(shape.dtype, accumulate=accumulate)
    activation, weight = _formats(shape.dtype, shape.weights_dtype)
    return Answer(
        workload=shape.workload,
        model=architecture.name,
        gpu=None if gpu is None else gpu.name,
        dtype=activation.name,
        weights_dtype=weight.name,
        kv_dtype=number_format(shape.kv_dtype or shape.dtype).name,
        batch=shape.sequences,
        context=shape.contexts or shape.context,
        query_tokens=shape.queries or shape.query_tokens,
        tp=shape.tp,
        link_bytes=theory.link_bytes,
        operators=_judged(theory.operators, roof),
        totals=AnswerTotals(
            params=architecture.params,
            tensor_flops=theory.tensor_flops,
            flops=theory.flops,
            ideal_op_bytes=theory.ideal_op_bytes,
            compulsory_bytes=theory.compulsory_bytes,
            kv_bytes_per_token=theory.kv_bytes_per_token,
            weight_bytes_read=theory.weight_bytes_read,
        ),
        roof=roof,
        floors=None if roof is None else step_floors(theory, roof),
        crossover_tokens={} if roof is None else projection_crossovers(architecture, shape, roof),
        notes=_notes(theory),
        disagreements=() if gpu is None else gpu.notes,
    )


def gemm_answer(
    operator: OperatorTheory, gpu: Gpu | None, *, dtype: str, weights_dtype: str | None,
    accumulate: str = "float32",
) -> Answer:  # fmt: skip
    """The answer for one product [M, K] x [K, N]."""
    activation, weight = _formats(dtype, weights_dtype)
    answer = operators_answer("gemm", (operator,), gpu, dtype=dtype, accumulate=accumulate)
    assert operator.matrix is not None
    k, n = operator.matrix
    crossings = {}
    if answer.roof is not None:
        crossings = {
            operator.name: crossover_tokens(
                k, n, printed_ridge(answer.roof), activation=activation, weight=weight
            )
        }
    totals = replace(answer.totals, params=k * n, weight_bytes_read=operator.weight_bytes)
    return replace(answer, weights_dtype=weight.name, crossover_tokens=crossings, totals=totals)


def operators_answer(
    workload: str, operators: tuple[OperatorTheory, ...], gpu: Gpu | None, *, dtype: str,
    compulsory_bytes: int | None = None, accumulate: str = "float32",
) -> Answer:  # fmt: skip
    """The answer for operators outside a model; compulsory bytes are theirs unless given."""
    roof = None if gpu is None else gpu.roof(dtype, accumulate=accumulate)
    ideal = sum(o.count * o.bytes for o in operators)
    flops = sum(o.count * o.flops for o in operators)
    tensor = sum(o.count * o.flops for o in operators if o.tensor)
    compulsory = ideal if compulsory_bytes is None else compulsory_bytes
    name = compute_dtype(dtype)
    return Answer(
        workload=workload,
        model=None,
        gpu=None if gpu is None else gpu.name,
        dtype=name,
        weights_dtype=name,
        kv_dtype=name,
        operators=_judged(operators, roof),
        totals=AnswerTotals(
            params=None,
            tensor_flops=tensor,
            flops=flops,
            ideal_op_bytes=ideal,
            compulsory_bytes=compulsory,
            kv_bytes_per_token=None,
            weight_bytes_read=None,
        ),
        roof=roof,
        floors=None if roof is None else _floors(operators, tensor, ideal, compulsory, roof),
        disagreements=() if gpu is None else gpu.notes,
    )


def _judged(
    operators: tuple[OperatorTheory, ...], roof: Roof | None
) -> tuple[OperatorAnswer, ...]:  # fmt: skip
    return tuple(
        OperatorAnswer(
            operator=o,
            bound=bound(o.flops, o.bytes, roof),
            floor_ns=None if roof is None else operator_floor_ns(o, roof),
        )
        for o in operators
    )


def _floors(
    operators: tuple[OperatorTheory, ...], tensor: int, ideal: int, compulsory: int, roof: Roof
) -> StepFloors:
    return StepFloors(
        compute_ns=NS_PER_S * tensor / roof.peak_flops_per_s,
        ideal_bytes_ns=NS_PER_S * ideal / roof.bandwidth_bytes_per_s,
        compulsory_bytes_ns=NS_PER_S * compulsory / roof.bandwidth_bytes_per_s,
        step_ns=floor_ns(tensor, compulsory, roof),
        sum_of_operators_ns=sum(o.count * operator_floor_ns(o, roof) for o in operators),
    )


def _formats(dtype: str, weights_dtype: str | None) -> tuple[Format, Format]:
    plain = activation_format(dtype)
    return plain, number_format(weights_dtype or plain.name, "--weights-dtype")


def _notes(theory: StepTheory) -> tuple[str, ...]:
    model, shape = theory.architecture, theory.shape
    notes = []
    if shape.tp > 1:
        notes.append(
            f"This is one of {shape.tp} ranks. The time on the links between them is in no floor."
        )
        if model.latent is None and shape.tp > model.kv_heads:
            notes.append(
                f"The {model.kv_heads} key/value heads are replicated over {shape.tp} ranks."
            )
    if model.experts is not None:
        notes.append(
            "Expert weights: the expected number of distinct experts under even routing is read."
        )
    if model.latent is not None:
        absorbed = shape.workload != "prefill" if shape.absorbed is None else shape.absorbed
        notes.append(
            "MLA with kv_b_proj absorbed: attention reads the latents."
            if absorbed
            else "MLA not absorbed: latents are expanded to keys and values of all heads."
        )
    if model.quantised_by and shape.weights_dtype is None:
        notes.append(
            f"The configuration says that weights are quantised ({model.quantised_by}), in a format"
            f" not known here: they are counted as {shape.dtype}. Give --weights-dtype."
        )
    if shape.weights_dtype is not None:
        notes.append(
            "Only the layers' projections are in the weights' format; embedding, lm_head, norms,"
            " router and biases are not. Products run at the peak of the activations' dtype."
        )
    if not shape.fused:
        notes.append(
            "Attention is unfused: scores pass through memory, masked pairs included, and new keys"
            " and values are copied into the cache."
        )
    return tuple(notes)
