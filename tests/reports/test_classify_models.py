"""Classes of recorded models that people write by hand: no names, other names, extra parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from rooflens.harness.recorder import record
from rooflens.model import Op
from rooflens.reports.classify import classify

DTYPE = torch.bfloat16
WIDTH, HEADS, KV, SIZE, FFN, VOCABULARY = 64, 4, 2, 16, 160, 320


def classified(call: Callable[[], object], model: nn.Module | None = None) -> tuple[Op, ...]:
    torch.manual_seed(0)
    return classify(record(call, model))


def counts(ops: tuple[Op, ...]) -> Counter[str]:
    return Counter(f"{op.op_class}/{op.part}" if op.part else op.op_class for op in ops)


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


class Bare:
    """A decoder layer and head as functions over a dictionary of weights: no modules, no names."""

    def __init__(self) -> None:
        shapes = {
            "embed": (VOCABULARY, WIDTH), "q": (HEADS * SIZE, WIDTH), "k": (KV * SIZE, WIDTH),
            "v": (KV * SIZE, WIDTH), "o": (WIDTH, HEADS * SIZE), "gate": (FFN, WIDTH),
            "up": (FFN, WIDTH), "down": (WIDTH, FFN), "head": (VOCABULARY, WIDTH),
            "norm": (WIDTH,),
        }  # fmt: skip
        self.w = {name: torch.randn(shape, dtype=DTYPE) * 0.02 for name, shape in shapes.items()}
        self.keys = torch.randn(2, KV, 64, SIZE, dtype=DTYPE)
        self.values = torch.randn(2, KV, 64, SIZE, dtype=DTYPE)

    def rope(self, x: torch.Tensor, position: int) -> torch.Tensor:
        rates = 1 / (1e4 ** (torch.arange(0, SIZE, 2) / SIZE))
        angles = torch.arange(position, position + x.shape[2])[:, None] * rates
        cos, sin = angles.cos().to(DTYPE), angles.sin().to(DTYPE)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        k, v = (t.repeat_interleave(HEADS // KV, 1) for t in (k, v))
        scores = (q * SIZE**-0.5) @ k.transpose(-1, -2)
        if q.shape[2] > 1:
            future = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(future, -1e4)
        weights = scores.float().softmax(-1).to(DTYPE)
        return torch.matmul(weights, v)

    def step(self, ids: torch.Tensor, position: int, fused: bool) -> torch.Tensor:
        batch, new = ids.shape
        x = F.embedding(ids, self.w["embed"])
        h = rms_norm(x, self.w["norm"])
        q, k, v = (
            F.linear(h, self.w[name]).view(batch, new, -1, SIZE).transpose(1, 2) for name in "qkv"
        )
        q, k = self.rope(q, position), self.rope(k, position)
        end = position + new
        self.keys[:, :, position:end] = k
        self.values[:, :, position:end] = v
        k, v = self.keys[:, :, :end], self.values[:, :, :end]
        if fused:
            context = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        else:
            context = self.attend(q, k, v)
        x = x + F.linear(context.transpose(1, 2).reshape(batch, new, -1), self.w["o"])
        h = rms_norm(x, self.w["norm"])
        gated = F.silu(F.linear(h, self.w["gate"])) * F.linear(h, self.w["up"])
        x = x + F.linear(gated, self.w["down"])
        logits = F.linear(rms_norm(x, self.w["norm"])[:, -1], self.w["head"])
        return self.sample(logits)

    def sample(self, logits: torch.Tensor) -> torch.Tensor:
        ordered, index = (logits.float() / 0.8).softmax(-1).sort(-1, descending=True)
        ordered = ordered.masked_fill(ordered.cumsum(-1) - ordered > 0.9, 0)
        return index.gather(-1, torch.multinomial(ordered, 1))


ONCE = (
    "embedding", "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    "activation/gate", "activation/multiply", "lm_head/matmul", "lm_head/cast",
)  # fmt: skip


@pytest.mark.parametrize(
    ("fused", "tokens", "attention"),
    [
        (True, 1, {"attention/fused": 1}),
        (
            False, 1,
            {
                "attention/expand": 2, "attention/scores": 2, "attention/cast": 2,
                "attention/softmax": 1, "attention/values": 1,
            },
        ),
        (
            False, 8,
            {
                "attention/expand": 2, "attention/scores": 3, "attention/cast": 2,
                "attention/softmax": 1, "attention/values": 1, "attention/layout": 1, "mask": 2,
            },
        ),
    ],
)  # fmt: skip
def test_a_step_of_bare_functions(fused: bool, tokens: int, attention: dict[str, int]) -> None:
    model, ids = Bare(), torch.zeros(2, tokens, dtype=torch.long)
    found = counts(classified(lambda: model.step(ids, 0 if tokens > 1 else 30, fused)))
    for name in ONCE:
        assert found.pop(name) == 1, name
    assert found.pop("kv_write/append") == 2
    assert found.pop("residual") == 2
    for name, count in attention.items():
        assert found.pop(name) == count, name
    assert {name.split("/")[0] for name in found} == {"norm", "rope", "sampling"}
    assert found["sampling"] == 9


def test_several_steps_in_one_recording_are_classified_alike() -> None:
    model, ids = Bare(), torch.zeros(2, 1, dtype=torch.long)

    def two_steps() -> None:
        model.step(model.step(ids, 30, True), 31, True)

    once = counts(classified(lambda: model.step(ids, 30, True)))
    assert counts(classified(two_steps)) == {name: 2 * count for name, count in once.items()}


class ComplexAttention(nn.Module):
    """Attention as in the first Llama code: complex rope, slices of a preallocated cache."""

    def __init__(self) -> None:
        super().__init__()
        self.wq = nn.Linear(WIDTH, HEADS * SIZE, bias=False, dtype=DTYPE)
        self.wk = nn.Linear(WIDTH, KV * SIZE, bias=False, dtype=DTYPE)
        self.wv = nn.Linear(WIDTH, KV * SIZE, bias=False, dtype=DTYPE)
        self.wo = nn.Linear(HEADS * SIZE, WIDTH, bias=False, dtype=DTYPE)
        self.cache_k = torch.zeros(1, 32, KV, SIZE, dtype=DTYPE)
        self.cache_v = torch.zeros(1, 32, KV, SIZE, dtype=DTYPE)

    def rotate(self, x: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * factors[:, None, :]).flatten(3).type_as(x)

    def forward(self, x: torch.Tensor, start: int, factors: torch.Tensor) -> torch.Tensor:
        batch, new, _ = x.shape
        q, k, v = (w(x).view(batch, new, -1, SIZE) for w in (self.wq, self.wk, self.wv))
        q, k = self.rotate(q, factors), self.rotate(k, factors)
        self.cache_k[:, start : start + new] = k
        self.cache_v[:, start : start + new] = v
        keys, values = (
            cache[:, : start + new, :, None].expand(-1, -1, -1, HEADS // KV, -1).flatten(2, 3)
            for cache in (self.cache_k, self.cache_v)
        )
        scores = q.transpose(1, 2) @ keys.permute(0, 2, 3, 1) / SIZE**0.5
        context = scores.float().softmax(-1).type_as(q) @ values.transpose(1, 2)
        out: torch.Tensor = self.wo(context.transpose(1, 2).reshape(batch, new, -1))
        return out


def test_complex_rope_and_a_preallocated_cache() -> None:
    model, x = ComplexAttention(), torch.zeros(1, 1, WIDTH, dtype=DTYPE)
    factors = torch.polar(torch.ones(1, SIZE // 2), torch.zeros(1, SIZE // 2))
    ops = classified(lambda: model(x, 7, factors), model)
    found = counts(ops)
    assert found["rope/rotate"] == 2
    assert found["rope/cast"] == 4
    assert found["kv_write/append"] == 2
    assert found["attention/expand"] == 2
    assert [found[name] for name in ("q_proj", "k_proj", "v_proj", "o_proj")] == [1, 1, 1, 1]
    assert not found.keys() & {"other", "cast", "layout_copy"}
    write = next(op for op in ops if op.op_class == "kv_write")
    assert write.bytes_out == KV * SIZE * 2


class Mixture(nn.Module):
    """Experts in a Python loop, as most first versions are written."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4, bias=False, dtype=DTYPE)
        self.experts = nn.ModuleList(
            nn.Sequential(
                nn.Linear(WIDTH, 96, dtype=DTYPE), nn.SiLU(), nn.Linear(96, WIDTH, dtype=DTYPE)
            )
            for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).float().softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            token, place = torch.where(chosen == index)
            out.index_add_(0, token, (expert(x[token]) * weights[token, place, None]).to(DTYPE))
        return out


def test_a_mixture_of_experts_is_router_and_experts() -> None:
    model = nn.ModuleDict({"mlp": Mixture()})
    x = torch.randn(6, WIDTH, dtype=DTYPE)
    ops = classified(lambda: model["mlp"](x), model)
    assert {op.op_class for op in ops} == {"router", "experts"}
    assert sum(op.op_class == "experts" and op.flops > 0 for op in ops) == 8


class LoRA(nn.Module):
    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.Linear(base.in_features, 8, bias=False, dtype=DTYPE)
        self.lora_B = nn.Linear(8, base.out_features, bias=False, dtype=DTYPE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.base_layer(x) + self.lora_B(self.lora_A(x)) * 2.0
        return out


class Int8(nn.Module):
    """Weights unpacked to bfloat16 in every call."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.register_buffer("qweight", torch.ones(base.weight.shape, dtype=torch.int8))
        self.register_buffer("scales", torch.ones(base.weight.shape[0], 1, dtype=DTYPE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight: Any = self.qweight.to(DTYPE) * self.scales  # type: ignore[operator]
        return F.linear(x, weight)


@pytest.mark.parametrize(
    ("wrapper", "wanted"),
    [(LoRA, {"down_proj": 5}), (Int8, {"down_proj": 2, "cast": 1})],
)
def test_wrapped_projections_keep_their_class(
    wrapper: Callable[[nn.Linear], nn.Module], wanted: dict[str, int]
) -> None:
    model = nn.ModuleDict({"down_proj": wrapper(nn.Linear(FFN, WIDTH, bias=False, dtype=DTYPE))})
    x = torch.zeros(3, FFN, dtype=DTYPE)
    assert counts(classified(lambda: model["down_proj"](x), model)) == wanted


def test_dequantised_weights_without_names_are_weights() -> None:
    model = Int8(nn.Linear(WIDTH, WIDTH, bias=False, dtype=DTYPE))
    x = torch.zeros(3, WIDTH, dtype=DTYPE)

    def two_products() -> torch.Tensor:
        out: torch.Tensor = model(F.relu(model(x)))
        return out

    assert "attention" not in {op.op_class for op in classified(two_products, model)}


def test_torchs_own_composite_is_attention_with_its_parts() -> None:
    q = torch.zeros(1, HEADS, 8, SIZE, dtype=DTYPE)

    def composite() -> None:
        with sdpa_kernel(SDPBackend.MATH):
            F.scaled_dot_product_attention(q * 1, q * 2, q * 3, is_causal=True)

    found = counts(classified(composite))
    assert found["attention/values"] == found["attention/softmax"] == 1
    assert not found.keys() & {"other", "rope/rotate", "layout_copy"}


def test_an_mlp_without_a_gate() -> None:
    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(WIDTH, FFN, dtype=DTYPE)
            self.second = nn.Linear(FFN, WIDTH, dtype=DTYPE)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.second(F.gelu(self.first(x)))
            return out

    model, x = Mlp(), torch.zeros(3, WIDTH, dtype=DTYPE)
    assert counts(classified(lambda: model(x), model)) == {
        "up_proj": 1, "activation/gate": 1, "down_proj": 1,
    }  # fmt: skip
