"""What names say about an op: module path and class, weight name, operator name."""

from __future__ import annotations

import re

from rooflens.model import Op

LINEAR_CLASSES = frozenset(
    {
        "q_proj", "k_proj", "v_proj", "qkv_proj", "kv_proj", "o_proj", "gate_proj", "up_proj",
        "gate_up_proj", "down_proj", "router", "experts", "lm_head",
    }
)  # fmt: skip

COPIES = frozenset(
    {
        "aten.clone", "aten.copy_", "aten.contiguous", "aten.cat", "aten.stack", "aten.repeat",
        "aten.constant_pad_nd", "aten.roll", "aten.flip", "aten.index_select", "aten.index",
        "aten.slice_scatter", "aten.select_scatter", "aten.gather", "aten._to_copy",
    }
)  # fmt: skip
"""Ops that move data and compute nothing. `_to_copy` is a cast when the dtype changes."""

ACTIVATIONS = frozenset(
    {
        "aten.silu", "aten.silu_", "aten.gelu", "aten.gelu_", "aten.relu", "aten.relu_",
        "aten.hardswish", "aten.mish", "aten.leaky_relu", "aten.relu6", "aten.elu",
    }
)  # fmt: skip

NORM_OPS = frozenset(
    {"aten.native_layer_norm", "aten._fused_rms_norm", "aten.native_group_norm", "aten.rms_norm"}
)

FUSED_ATTENTION = "aten.scaled_dot_product_attention"

_LAYER = re.compile(
    r"(?:^|\.)(?:layers?|h|blocks?|decoder_layers|transformer_blocks)\.(\d+)(?:\.|$)"
)
_LEADING_INDEX = re.compile(r"^(?:\w+\.)?(\d+)\.\w")
"""`0.attn.q` or `stack.0.attn.q`; not `mlp.experts.0.w1`, nor `mlp.0` of an nn.Sequential."""

_PROJECTIONS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("qkv_proj", r"qkv(_proj|_linear|_w)?|wqkv|c_attn|query_key_value|in_proj(_\w+)?"),
        ("kv_proj", r"kv(_proj|_linear)?|wkv|to_kv|key_value"),
        ("gate_up_proj", r"gate_(and_)?up(_proj)?|up_gate_proj|w13|w1w3|wi_fused"),
        ("q_proj", r"q(_proj|_linear|uery|_w)?|wq|to_q|query_proj|q_[ab]_proj"),
        ("k_proj", r"k(_proj|_linear|ey|_w)?|wk|to_k|key_proj"),
        ("v_proj", r"v(_proj|_linear|alue|_w)?|wv|to_v|value_proj"),
        ("o_proj", r"o(_proj|_linear|_w)?|wo|out_proj|to_out|attn_out(put)?|output_proj"),
        ("gate_proj", r"gate_proj|w1|wi_0|gate_w|w_gate|linear_gate"),
        ("up_proj", r"up(_proj)?|w3|wi_1|fc1|c_fc|dense_h_to_4h|up_w|w_up|linear_up|wi"),
        ("down_proj", r"down(_proj)?|w2|fc2|dense_4h_to_h|down_w|w_down|linear_down"),
        ("lm_head", r"lm_head|embed_out|unembed(ding)?|output_head|vocab_proj|logits_proj"),
    )
)  # fmt: skip

_NORM_PATH = re.compile(r"(^|_)(rms_?norm|layer_?norm|norm|ln)(_?\w{0,2})?$|norm$|layernorm", re.I)
_NORM_CLASS = re.compile(r"norm$", re.I)
_ROTARY = re.compile(r"rotary|rope", re.I)
_ACTIVATION_CLASS = re.compile(
    r"^(silu|gelu\w*|relu6?|swish|mish|newgelu\w*|quickgelu\w*|fastgelu\w*|\w*gelu\w*|\w*silu\w*"
    r"|pytorchgelutanh|siluandmul|swiglu)(activation)?$", re.I,
)  # fmt: skip
_ACTIVATION_PATH = re.compile(r"^(act|act_fn|activation(_fn)?|act_func)$", re.I)
_EMBEDDING = re.compile(r"^(embed_tokens|wte|tok_embeddings|word_embeddings|embeddings?|embed)$")
_EXPERTS = re.compile(r"(?<!shared_)experts?$", re.I)
_ROUTER = re.compile(r"^(router|gate|moe_gate|gating|shared_expert_gate)$")
_COMMUNICATION = re.compile(r"^(c10d|_c10d_functional|_c10d_functional_autograd|symm_mem)\.")
_SAMPLER = re.compile(r"sampl|logits_?process|top_?[kp]$", re.I)

_CUSTOM: tuple[tuple[re.Pattern[str], str, str | None], ...] = tuple(
    (re.compile(pattern, re.I), op_class, part)
    for pattern, op_class, part in (
        (r"all_?reduce|all_?gather|reduce_scatter|all_to_all", "communication", None),
        (r"(reshape_and|write|append|update|store|copy|concat).*cache|cache_?(write|append|update)",
         "kv_write", "append"),
        (r"rms_?norm|layer_?norm|group_?norm|fused_norm|add_norm", "norm", "fused"),
        (r"rotary|rope(_|$)|apply_rope", "rope", "fused"),
        (r"silu|swiglu|geglu|gelu|act_and_mul|reglu|glu_fwd", "activation", "fused"),
        (r"(?<!mask_)attention|attn|flash_fwd|sdpa|mha_fwd", "attention", "fused"),
        (r"topk_softmax|moe_align|grouped_topk|moe_gate|router", "router", None),
        (r"fused_moe|fused_experts|moe_(gemm|forward|mm)|grouped_gemm", "experts", None),
        (r"top_?[kp]_|sampl|multinomial", "sampling", None),
    )
)  # fmt: skip

Named = tuple[str, str | None]


def layer_of(op: Op) -> int | None:
    """Index of the decoder layer, from the module path or from the weight that the op reads."""
    for name in (op.module, *(tensor.name for tensor in op.inputs)):
        match = _LAYER.search(name) or _LEADING_INDEX.search(name)
        if match:
            return int(match[1])
    return None


def is_cast(op: Op) -> bool:
    """A copy whose only work is another dtype."""
    if op.name not in ("aten._to_copy", "aten.copy_", "aten.to") or not op.outputs:
        return False
    return any(tensor.dtype != op.outputs[0].dtype for tensor in op.inputs)


def is_copy(op: Op) -> bool:
    """Moves data without arithmetic and is no cast."""
    return op.name in COPIES and not is_cast(op)


def makes_only_indices(op: Op) -> bool:
    """Writes nothing but integers: positions, cache slots, lengths."""
    return bool(op.outputs) and all("int" in tensor.dtype for tensor in op.outputs)


def class_from_names(op: Op) -> Named | None:
    """The class that names decide, or None where dataflow has to."""
    custom = _custom_operator(op)
    if custom is not None:
        return custom
    components = [part for part in op.module.split(".") if part]
    leaf = components[-1] if components else ""
    if _in_experts(components):
        return "experts", None
    if _in_router(leaf, op):
        return "router", None
    if _is_norm(leaf, op.module_class):
        return "norm", _norm_part(op)
    if any(_ROTARY.search(part) for part in components) or _ROTARY.search(op.module_class):
        return "rope", _rotary_module_part(op)
    if op.name in ("aten.embedding", "aten.embedding_bag"):
        return "embedding", None
    if _EMBEDDING.match(leaf) and not op.flops:
        return "embedding", None
    if any(_SAMPLER.search(part) for part in components) or _SAMPLER.search(op.module_class):
        return "sampling", None
    if _ACTIVATION_PATH.match(leaf) or _ACTIVATION_CLASS.match(op.module_class):
        return "activation", "cast" if is_cast(op) else "gate"
    return _projection(op, components)


def _custom_operator(op: Op) -> Named | None:
    if _COMMUNICATION.match(op.name):
        return "communication", None
    if op.name in NORM_OPS:
        return "norm", "fused"
    if op.name == FUSED_ATTENTION:
        return "attention", "fused"
    if op.name.startswith("aten."):
        return None
    bare = op.name.split(".", 1)[-1]
    for pattern, op_class, part in _CUSTOM:
        if pattern.search(bare):
            return op_class, part
    return None


def _is_norm(leaf: str, module_class: str) -> bool:
    return bool(_NORM_PATH.search(leaf) or _NORM_CLASS.search(module_class))


def _norm_part(op: Op) -> str:
    if is_cast(op) or is_copy(op):
        return "cast" if is_cast(op) else "scale"
    base = op.name.split(".", 1)[-1].rstrip("_")
    return "reduce" if base in ("pow", "square", "mean", "sum", "var", "var_mean") else "scale"


def _rotary_module_part(op: Op) -> str:
    reads_heads = any(len(t.shape) >= 4 and t.role != "weight" for t in op.inputs)
    if not reads_heads:
        return "tables"
    return "cast" if is_cast(op) else "layout" if op.name == "aten.clone" else "rotate"


def _in_experts(path: list[str]) -> bool:
    """Inside a routed expert; a shared expert is an MLP like any other."""
    return any(_EXPERTS.search(component) for component in path)


def _in_router(leaf: str, op: Op) -> bool:
    """`gate` is a router unless it is a wide linear: some MLPs call their gate_proj so."""
    if not _ROUTER.match(leaf):
        return False
    if leaf != "gate" or not op.flops:
        return leaf != "gate" or op.module_class != "Linear"
    width = op.outputs[0].shape[-1] if op.outputs and op.outputs[0].shape else 0
    return all(width < t.shape[-1] for t in op.inputs if t.role != "weight" and t.shape)


def _projection(op: Op, components: list[str]) -> Named | None:
    weights = [tensor.name for tensor in op.inputs if tensor.role == "weight" and tensor.name]
    paths = [name.split(".") for name in weights] if op.flops else []
    in_projection = _match_projection(components, op)
    for path in paths:
        named = _match_projection(path, op)
        if named is not None:
            return named, "matmul" if named == "lm_head" else None
    if in_projection is None or is_cast(op) or is_copy(op):
        return None
    if in_projection == "lm_head":
        return "lm_head", "matmul" if op.flops else None
    return in_projection, None


def _match_projection(path: list[str], op: Op) -> str | None:
    """Class of the innermost path component that names a projection."""
    if _in_experts(path):
        return "experts"
    for component in reversed(path):
        if component in ("weight", "bias") or component.isdigit():
            continue
        if _ROUTER.match(component):
            return "router" if _in_router(component, op) else "gate_proj"
        for name, pattern in _PROJECTIONS:
            if pattern.fullmatch(component):
                return name
        if component in ("dense", "c_proj", "proj"):
            return _dense_of_block(path)
        if component in ("output", "head") and path.index(component) == 0:
            return "lm_head"
    return None


def _dense_of_block(path: list[str]) -> str:
    """`dense` and `c_proj` end an attention or an MLP block, whichever they are in."""
    if "intermediate" in path:
        return "up_proj"
    if any(re.search(r"attn|attention", part, re.I) for part in path):
        return "o_proj"
    inside_mlp = any(re.search(r"mlp|ffn|feed_?forward|^output$", part, re.I) for part in path)
    return "down_proj" if inside_mlp else "o_proj"
