"""MLPs, norms, residuals, logits and sampling; and a class for what nothing has explained."""

from __future__ import annotations

from rooflens.model import Op
from rooflens.reports.classify.flow import Flow, is_weight_operand
from rooflens.reports.classify.names import (
    ACTIVATIONS,
    is_cast,
    is_copy,
    makes_only_indices,
)

_SAMPLING_OPS = frozenset(
    {
        "aten.multinomial", "aten.topk", "aten.sort", "aten.argmax", "aten.cumsum",
        "aten.exponential_", "aten.argsort",
    }
)  # fmt: skip
_REDUCE = ("pow", "square", "mean", "sum", "var", "var_mean")
_BEFORE_RSQRT = ("pow", "square", "mul", "mean", "sum", "add", "div", "var", "var_mean", "sub")
_SUMS_AND_SCALINGS = frozenset({"aten.add", "aten.add_", "aten.mul", "aten.mul_"})
_INHERITED = ("mask", "rope", "kv_write", "sampling", "embedding", "router", "experts", "norm")


def classify_blocks(flow: Flow) -> None:
    """Set classes that need the attention to be known."""
    _experts(flow)
    _norms(flow)
    _logits(flow)
    _activations(flow)
    _residuals(flow)


def classify_rest(flow: Flow) -> None:
    """Casts and copies outside every class, then what one consumer class explains, else `other`."""
    for index in range(len(flow.ops) - 1, -1, -1):
        if flow.classes[index] is None:
            _inherit(flow, index)
    for index, op in enumerate(flow.ops):
        if is_cast(op):
            flow.set(index, "cast")
        elif is_copy(op):
            flow.set(index, "layout_copy")
        elif op.name in _SAMPLING_OPS:
            flow.set(index, "sampling")
        else:
            flow.set(index, "other")


def _inherit(flow: Flow, index: int) -> None:
    """An op that only serves one class belongs to it (positions for rope, indices for a cache)."""
    op = flow.ops[index]
    if not flow.consumers[index] and makes_only_indices(op):
        _join_neighbour(flow, index)
        return
    users = {flow.classes[consumer] for consumer in flow.consumers[index]}
    if len(users) != 1:
        users &= {"mask", "rope", "kv_write"}
    user = users.pop() if users else None
    if user not in _INHERITED:
        return
    for_tables = user == "rope" and all(
        flow.parts[consumer] == "tables" for consumer in flow.consumers[index]
    )
    small = not any("float" in tensor.dtype for tensor in op.outputs)
    positions = user == "embedding" and all(len(tensor.shape) <= 2 for tensor in op.outputs)
    if small or positions or for_tables or user == "mask":
        flow.set(index, user, "tables" if user == "rope" else None)


def _join_neighbour(flow: Flow, index: int) -> None:
    """Indices that were made and never used: they belong to the work that they were made beside."""
    module = flow.ops[index].module
    for neighbours in (range(index + 1, len(flow.ops)), range(index - 1, -1, -1)):
        for other in neighbours:
            if flow.ops[other].module != module:
                break
            if flow.classes[other] in _INHERITED:
                flow.set(index, str(flow.classes[other]), flow.parts[other])
                return


def _experts(flow: Flow) -> None:
    """Ops of a mixture-of-experts block that are neither router nor expert by name."""
    blocks = {
        flow.ops[index].module.rpartition(".")[0]
        for index, name in enumerate(flow.classes)
        if name == "router"
    }
    blocks |= {
        flow.ops[index].module
        for index, name in enumerate(flow.classes)
        if name == "router" and "moe" in flow.ops[index].module_class.lower()
    }
    blocks.discard("")
    for index, op in enumerate(flow.ops):
        if flow.classes[index] is None and op.module in blocks:
            base = op.name.split(".", 1)[-1].strip("_")
            routing = base in (
                "softmax",
                "topk",
                "sum",
                "div",
                "one_hot",
                "sort",
                "sigmoid",
                "scatter",
            )
            flow.set(index, "router" if routing else "experts")


def _norms(flow: Flow) -> None:
    """Norms written out in a function: found by their rsqrt."""
    for index, op in enumerate(flow.ops):
        if op.name not in ("aten.rsqrt", "aten.rsqrt_") or flow.classes[index] is not None:
            continue

        def not_norm(candidate: int) -> bool:
            base = flow.ops[candidate].name.split(".", 1)[-1].rstrip("_")
            taken = flow.classes[candidate] is not None
            return taken or not (base in _BEFORE_RSQRT or base == "rsqrt" or base == "_to_copy")

        members = [i for i in flow.upstream([index], not_norm) if not not_norm(i)]
        members = [i for i in members if i > _last_other(flow, members, index)]
        for member in (*members, *_scaled(flow, index)):
            flow.set(member, "norm", _norm_part(flow.ops[member]))


def _last_other(flow: Flow, members: list[int], index: int) -> int:
    """The residual add before the norm: two tensors of one shape joined, no work of a norm."""
    adds = [
        i
        for i in members
        if flow.ops[i].name in ("aten.add", "aten.add_")
        and len({t.id for t in flow.ops[i].inputs}) == 2
        and len({t.shape for t in flow.ops[i].inputs}) == 1
    ]
    return max(adds, default=-1)


def _scaled(flow: Flow, rsqrt: int) -> list[int]:
    """The products with 1/rms and with the weight, and the cast between them."""
    found = []
    current = [rsqrt]
    for _ in range(4):
        following = []
        for index in current:
            for consumer in flow.consumers[index]:
                op = flow.ops[consumer]
                base = op.name.split(".", 1)[-1].rstrip("_")
                by_vector = any(len(t.shape) == 1 for t in op.inputs)
                scales = base == "mul" and (index == rsqrt or by_vector)
                shifts = base == "add" and by_vector
                if flow.classes[consumer] is None and (scales or shifts or is_cast(op)):
                    following.append(consumer)
        found += following
        current = following
    return found


def _norm_part(op: Op) -> str:
    if is_cast(op):
        return "cast"
    base = op.name.split(".", 1)[-1].rstrip("_")
    return "reduce" if base in _REDUCE else "scale"


def _logits(flow: Flow) -> None:
    """The output head, its casts, and sampling from the logits."""
    heads = [index for index, name in enumerate(flow.classes) if name == "lm_head"]
    if not heads:
        heads = _last_linear(flow)
        for index in heads:
            flow.set(index, "lm_head", "matmul")
    if not heads:
        return
    casts: set[int] = set()

    def elsewhere(index: int) -> bool:
        # The chosen token is embedded again when several steps are recorded in a row.
        return index not in heads and flow.classes[index] is not None

    for index in flow.downstream(heads, elsewhere):
        if index in heads or elsewhere(index):
            continue
        op = flow.ops[index]
        direct = all(p in heads or p in casts for p in flow.producers(index))
        if direct and (is_cast(op) or is_copy(op)):
            casts.add(index)
            flow.set(index, "lm_head", "cast") if is_cast(op) else flow.set(index, "layout_copy")
        else:
            flow.set(index, "sampling")


def _last_linear(flow: Flow) -> list[int]:
    """An unnamed head: the last product with a weight, if it is wider than what it reads."""
    linears = [index for index in range(len(flow.ops)) if flow.is_linear(index)]
    if not linears or flow.classes[linears[-1]] is not None:
        return []
    op = flow.ops[linears[-1]]
    data = [t for t in op.inputs if t.shape and not is_weight_operand(op, t)]
    reads = max((t.shape[-1] for t in data), default=0)
    writes = op.outputs[0].shape[-1] if op.outputs and op.outputs[0].shape else 0
    has_norm_before = any(name == "norm" for name in flow.classes)
    if writes <= reads or not has_norm_before:
        return []
    weights = {t.id for t in op.inputs if is_weight_operand(op, t)}
    return [  # one per step, when several steps were recorded
        index
        for index in linears
        if index == linears[-1] or weights & {t.id for t in flow.ops[index].inputs}
    ]


def _activations(flow: Flow) -> None:
    """SiLU and its kin, the product with `up`, casts between, and unnamed MLP projections."""
    for index, op in enumerate(flow.ops):
        if op.name in ACTIVATIONS:
            flow.set(index, "activation", "gate")
    for index in range(len(flow.ops)):
        if flow.classes[index] != "activation" or flow.parts[index] in ("multiply", "cast"):
            continue
        # A GELU may be written out as many ops: start from its last one.
        if not any(flow.classes[consumer] == "activation" for consumer in flow.consumers[index]):
            _around_activation(flow, index)


def _around_activation(flow: Flow, index: int) -> None:
    gates = _linears_before(flow, index)
    multiplied = False
    last = index
    for _ in range(4):
        followers = [c for c in flow.consumers[last] if not flow.is_linear(c)]
        if not followers or flow.classes[followers[0]] not in (None, "activation"):
            break
        follower = followers[0]
        op = flow.ops[follower]
        if op.name in ("aten.mul", "aten.mul_") and len(op.inputs) == 2:
            flow.set(follower, "activation", "multiply")
            multiplied = True
            ups = [i for i in _linears_before(flow, follower) if i not in gates]
            for up in ups:
                flow.set(up, "up_proj")
            for gate in gates:
                flow.set(gate, "gate_proj" if ups else "gate_up_proj")
        elif is_cast(op):
            flow.set(follower, "activation", "cast")
        elif not is_copy(op):
            break
        last = follower
    if not multiplied and flow.parts[index] != "fused":
        for gate in gates:
            if flow.classes[gate] == "gate_proj":
                flow.classes[gate] = "up_proj"  # w1 of an MLP without a gate
            flow.set(gate, "up_proj")
    for gate in gates:
        flow.set(gate, "gate_up_proj")
    for consumer in flow.consumers[last]:
        if flow.is_linear(consumer):
            flow.set(consumer, "down_proj")


def _linears_before(flow: Flow, index: int) -> list[int]:
    """Projections whose result reaches the op through casts and copies (which it owns)."""

    def stop(candidate: int) -> bool:
        if candidate == index or flow.is_linear(candidate):
            return candidate != index
        if flow.classes[candidate] == "activation":
            return False
        moves = is_cast(flow.ops[candidate]) or is_copy(flow.ops[candidate])
        return flow.classes[candidate] is not None or not moves

    reached = flow.upstream([index], stop)
    for candidate in reached:
        if not stop(candidate) and is_cast(flow.ops[candidate]):
            flow.set(candidate, "activation", "cast")
    return [candidate for candidate in reached if flow.is_linear(candidate)]


def _residuals(flow: Flow) -> None:
    """Sums of two activations outside every other class, and the scaling of what they add.

    Sums and scalings of embeddings before the first layer are part of the embedding.
    """
    for index, op in enumerate(flow.ops):
        if flow.classes[index] is not None or op.name not in _SUMS_AND_SCALINGS:
            continue
        producers = flow.producers(index)
        if producers and all(flow.classes[p] == "embedding" for p in producers):
            flow.set(index, "embedding")
            continue
        shapes = [tensor.shape for tensor in op.inputs]
        adds = op.name in ("aten.add", "aten.add_")
        if adds and len(shapes) == 2 and shapes[0] == shapes[1] and len(shapes[0]) >= 2:
            flow.set(index, "residual")
            for producer in producers:
                scaled = flow.ops[producer]
                single = scaled.name in ("aten.mul", "aten.mul_") and len(scaled.inputs) == 1
                if single and flow.consumers[producer] == [index]:
                    flow.set(producer, "residual")
