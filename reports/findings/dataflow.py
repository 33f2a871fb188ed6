"""Who writes and who reads each tensor of a recorded step.

Views are not ops: a view of a tensor carries its storage id, so following ids follows the data
through reshapes and transposes.

    flow = Flow(run.ops)
    flow.producer(op, tensor)     the op that wrote it before, or None: it came into the step
    flow.readers(op)              the ops that read what `op` wrote
    flow.fused_bytes(ops)         what one fused call in place of `ops` would have to move
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from rooflens.model import Op, Tensor

MATMULS = frozenset({
    "aten.mm", "aten.addmm", "aten.linear", "aten.bmm", "aten.baddbmm", "aten.matmul",
    "aten._scaled_mm", "aten.addmv", "aten.mv", "aten._grouped_mm", "aten.einsum",
})  # fmt: skip
BATCHED_MATMULS = frozenset({"aten.bmm", "aten.baddbmm", "aten.matmul", "aten.einsum"})
LINEARS = frozenset({
    "aten.mm", "aten.addmm", "aten.linear", "aten._scaled_mm", "aten.addmv", "aten.mv",
})  # fmt: skip
"""Products with a two-dimensional weight."""


def base_name(op: Op) -> str:
    """The dispatcher name without an overload: `aten.add.Tensor` and `aten.add` are one op."""
    return ".".join(op.name.split(".")[:2])


def is_float(tensor: Tensor) -> bool:
    """True for floating-point elements of any width."""
    return tensor.dtype.startswith(("float", "bfloat"))


def numel(tensor: Tensor) -> int:
    """Elements that the shape says, whatever the storage."""
    count = 1
    for length in tensor.shape:
        count *= length
    return count


def total_bytes(ops: Iterable[Op]) -> int:
    """Requested bytes of all ops."""
    return sum(op.bytes_in + op.bytes_out for op in ops)


class Flow:
    """Reads and writes of one step by storage id, in the order of the step."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self._ops = ops
        self._position = {op.index: position for position, op in enumerate(ops)}
        self._writes: dict[int, list[int]] = defaultdict(list)
        self._reads: dict[int, list[int]] = defaultdict(list)
        for position, op in enumerate(ops):
            for tensor in op.inputs:
                reads = self._reads[tensor.id]
                if not reads or reads[-1] != position:
                    reads.append(position)
            for tensor in op.outputs:
                self._writes[tensor.id].append(position)

    def producer(self, op: Op, tensor: Tensor) -> Op | None:
        """The last op before `op` that wrote the tensor; None when it came into the step."""
        writes = self._writes.get(tensor.id, [])
        found = bisect_left(writes, self._position[op.index])
        return self._ops[writes[found - 1]] if found else None

    def producers(self, op: Op) -> Iterator[tuple[Tensor, Op]]:
        """Every input of `op` that an earlier op wrote, with that op."""
        for tensor in op.inputs:
            producer = self.producer(op, tensor)
            if producer is not None:
                yield tensor, producer

    def readers(self, op: Op) -> list[Op]:
        """The ops after `op` that read one of its outputs, in order."""
        position = self._position[op.index]
        found: set[int] = set()
        for tensor in op.outputs:
            reads = self._reads.get(tensor.id, [])
            found.update(reads[bisect_right(reads, position) :])
        return [self._ops[reader] for reader in sorted(found)]

    def reach(self, start: Op, follow: Callable[[Op], bool]) -> tuple[list[Op], list[Op]]:
        """Walk forward from `start` through ops that `follow` accepts.

        Returns the ops walked through (without `start`) and the first ops that were refused.
        """
        walked: dict[int, Op] = {}
        ends: dict[int, Op] = {}
        waiting = [start]
        while waiting:
            for reader in self.readers(waiting.pop()):
                if reader.index in walked or reader.index in ends:
                    continue
                if follow(reader):
                    walked[reader.index] = reader
                    waiting.append(reader)
                else:
                    ends[reader.index] = reader
        return [walked[index] for index in sorted(walked)], [ends[index] for index in sorted(ends)]

    def sources(self, op: Op, tensor: Tensor, follow: Callable[[Op], bool]) -> list[Op]:
        """Walk backward from a tensor that `op` reads, through producers that `follow` accepts."""
        walked: dict[int, Op] = {}
        waiting = [(op, tensor)]
        while waiting:
            reader, read = waiting.pop()
            producer = self.producer(reader, read)
            if producer is None or producer.index in walked or not follow(producer):
                continue
            walked[producer.index] = producer
            waiting.extend((producer, source) for source in producer.inputs)
        return [walked[index] for index in sorted(walked)]

    def came_in(self, op: Op, tensor: Tensor) -> bool:
        """True for data that existed before the step and is no weight: a cache or an input."""
        return tensor.role != "weight" and self.producer(op, tensor) is None

    def fused_bytes(self, group: Sequence[Op]) -> int:
        """Bytes of one call that does all of `group`: what enters it and what leaves it, once.

        A tensor leaves when an op outside the group reads it, or when the last op wrote it and
        nobody reads it (it is a result of the step).
        """
        inside = {op.index for op in group}
        written: set[int] = set()
        entering: dict[int, int] = {}
        leaving: dict[int, int] = {}
        for op in group:
            for tensor in op.inputs:
                if tensor.id not in written:
                    entering[tensor.id] = max(entering.get(tensor.id, 0), tensor.bytes)
            for tensor in op.outputs:
                written.add(tensor.id)
        for op in group:
            readers = self.readers(op)
            for tensor in op.outputs:
                outside = any(
                    reader.index not in inside and any(t.id == tensor.id for t in reader.inputs)
                    for reader in readers
                )
                if outside or (op is group[-1] and not readers):
                    leaving[tensor.id] = max(leaving.get(tensor.id, 0), tensor.bytes)
        return sum(entering.values()) + sum(leaving.values())
