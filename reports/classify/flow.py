"""Who reads what whom wrote: the dataflow of a step, by storage id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rooflens.model import Op, Tensor
from rooflens.reports.classify.names import LINEAR_CLASSES


class Flow:
    """The ops of a step with their producers, consumers and the classes found so far."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = ops
        self.classes: list[str | None] = [None] * len(ops)
        self.parts: list[str | None] = [None] * len(ops)
        self.sources: list[dict[int, tuple[int, ...]]] = []
        """Per op: storage id of an input -> the ops that wrote what it holds."""
        self.consumers: list[list[int]] = [[] for _ in ops]
        self._from_weights: set[int] = set()
        self._connect()

    def set(self, index: int, op_class: str, part: str | None = None) -> None:
        """Give an op its class unless it has one."""
        if self.classes[index] is None:
            self.classes[index], self.parts[index] = op_class, part

    def producers(self, index: int) -> list[int]:
        """Ops that wrote any input of the op."""
        return sorted({p for writers in self.sources[index].values() for p in writers})

    def producers_of(self, index: int, tensor: Tensor) -> tuple[int, ...]:
        """Ops that wrote one input of the op."""
        return self.sources[index].get(tensor.id, ())

    def is_linear(self, index: int) -> bool:
        """A product with a weight, or an op that its name puts among the projections."""
        op = self.ops[index]
        if self.classes[index] in LINEAR_CLASSES:
            return True
        return bool(op.flops) and any(
            is_weight_operand(op, tensor) or self._is_dequantised(index, tensor)
            for tensor in op.inputs
        )

    def _is_dequantised(self, index: int, tensor: Tensor) -> bool:
        writers = self.producers_of(index, tensor)
        return bool(writers) and all(writer in self._from_weights for writer in writers)

    def is_product(self, index: int) -> bool:
        """A product of two activations: attention scores or values."""
        return bool(self.ops[index].flops) and not self.is_linear(index)

    def upstream(self, start: Iterable[int], stop: Callable[[int], bool]) -> list[int]:
        """Ops before and including `start`, not going past ops where `stop` (they are included)."""
        return self._walk(start, self.producers, stop)

    def downstream(self, start: Iterable[int], stop: Callable[[int], bool]) -> list[int]:
        """Ops after and including `start`, not going past ops where `stop` (they are included)."""
        return self._walk(start, lambda index: self.consumers[index], stop)

    def _walk(
        self, start: Iterable[int], step: Callable[[int], list[int]], stop: Callable[[int], bool]
    ) -> list[int]:
        found: set[int] = set()
        pending = list(start)
        while pending:
            index = pending.pop()
            if index in found:
                continue
            found.add(index)
            if not stop(index):
                pending.extend(step(index))
        return sorted(found)

    def _connect(self) -> None:
        writers: dict[int, tuple[int, ...]] = {}
        largest: dict[int, int] = {}
        for index, op in enumerate(self.ops):
            sources: dict[int, tuple[int, ...]] = {
                t.id: writers[t.id] for t in op.inputs if t.id in writers
            }
            self.sources.append(sources)
            for producer in {p for group in sources.values() for p in group}:
                self.consumers[producer].append(index)
            if _only_weights(op, sources, self._from_weights):
                self._from_weights.add(index)
            read = {tensor.id for tensor in op.inputs}
            for tensor in op.outputs:
                # Writing all of a buffer without reading it starts a new value (a workspace).
                whole = tensor.bytes >= largest.get(tensor.id, 0) and tensor.id not in read
                earlier = () if whole else writers.get(tensor.id, ())
                writers[tensor.id] = (*earlier, index)
                largest[tensor.id] = max(tensor.bytes, largest.get(tensor.id, 0))


def _only_weights(op: Op, sources: dict[int, tuple[int, ...]], known: set[int]) -> bool:
    """Reads no matrices but weights and what was made of them: unpacking, dequantising."""
    matrices = [tensor for tensor in op.inputs if len(tensor.shape) >= 2]
    return bool(matrices) and all(
        tensor.role == "weight"
        or (tensor.id in sources and all(writer in known for writer in sources[tensor.id]))
        for tensor in matrices
    )


def is_weight_operand(op: Op, tensor: Tensor) -> bool:
    """A parameter, or (in models without modules) a matrix that was there before the step."""
    if tensor.role == "weight":
        return True
    if tensor.role != "input" or len(tensor.shape) != 2:
        return False
    others = [other for other in op.inputs if other is not tensor and len(other.shape) >= 2]
    return any(other.role in ("activation", "weight") for other in others) or len(others) == 1
