"""One op for a fused attention call on every device; the composite where it is what runs."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from rooflens.harness.recorder import record
from rooflens.model import Op

FUSED = "aten.scaled_dot_product_attention"


def attention(
    device: str,
    *,
    queries: int = 1,
    keys: int = 20,
    heads: tuple[int, int] = (4, 2),
    mask: bool = False,
    heads_last: bool = True,
) -> tuple[Op, ...]:
    dtype = torch.bfloat16
    query = torch.zeros(2, heads[0], queries, 16, dtype=dtype, device=device)
    if heads_last:
        query = query.transpose(1, 2).contiguous().transpose(1, 2)
    key = torch.zeros(2, heads[1], keys, 16, dtype=dtype, device=device)
    attn_mask = torch.zeros(1, 1, queries, keys, dtype=dtype, device=device) if mask else None
    return record(
        lambda: (
            F.scaled_dot_product_attention(
                query, key, key, attn_mask=attn_mask, enable_gqa=heads[0] != heads[1]
            )
            .transpose(1, 2)
            .contiguous()
        )
    )


@pytest.mark.parametrize("queries", [1, 7])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("heads_last", [False, True])
def test_meta_and_cpu_record_the_same_rows(queries: int, mask: bool, heads_last: bool) -> None:
    cpu, meta = (
        attention(device, queries=queries, mask=mask, heads_last=heads_last)
        for device in ("cpu", "meta")
    )
    assert cpu[0].name == FUSED
    assert [
        (op.name, op.bytes_in, op.bytes_out, op.flops, [(t.shape, t.contiguous) for t in op.inputs])
        for op in cpu
    ] == [
        (op.name, op.bytes_in, op.bytes_out, op.flops, [(t.shape, t.contiguous) for t in op.inputs])
        for op in meta
    ]
    assert len(meta) == (1 if heads_last or queries == 1 else 2)


def test_its_bytes_are_the_tensors_of_the_call() -> None:
    (op,) = attention("meta")
    # batch 2, 4 query and 2 key heads of size 16, 20 keys; K and V are one tensor, read once
    assert op.bytes_in == 2 * 2 * 16 * (4 + 2 * 20)
    assert op.bytes_out == 2 * 2 * 4 * 16


def test_math_is_honoured_on_meta() -> None:
    with sdpa_kernel(SDPBackend.MATH):
        names = [op.name for op in attention("meta", heads=(4, 4))]
    assert FUSED not in names
    assert names.count("aten.bmm") == 2
    assert any("softmax" in name for name in names)


@pytest.mark.parametrize("dimensions", [3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_meta_falls_back_to_the_composite_where_the_cpu_does(
    dimensions: int, dtype: torch.dtype
) -> None:
    fused = []
    for device in ("cpu", "meta"):
        q = torch.zeros((2, 3, 5, 16)[4 - dimensions :], dtype=dtype, device=device)
        ops = record(lambda q=q: F.scaled_dot_product_attention(q, q, q))  # type: ignore[misc]
        fused.append(FUSED in [op.name for op in ops])
    assert fused == [dimensions == 4] * 2


def test_values_of_another_size_are_fused_as_a_gpu_does() -> None:
    query = torch.zeros(1, 2, 3, 24, device="meta")
    value = torch.zeros(1, 2, 3, 16, device="meta")
    (op,) = record(lambda: F.scaled_dot_product_attention(query, query, value))
    assert op.outputs[0].shape == (1, 2, 3, 16)
    assert op.flops == 2 * 2 * 9 * (24 + 16)


@torch.library.custom_op("flash_attn::_flash_attn_forward", mutates_args=())
def _flash_attn_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout_p: float, softmax_scale: float,
    causal: bool, window_size_left: int, window_size_right: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    return torch.empty_like(q), q.new_empty((q.shape[0], q.shape[2], q.shape[1]))


@pytest.mark.parametrize(("window", "pairs"), [(-1, 3 * 17 + 6), (4, 3 * 5)])
def test_the_flash_attn_package_is_the_same_row(window: int, pairs: int) -> None:
    query = torch.zeros(2, 3, 8, 16, dtype=torch.bfloat16)
    key = torch.zeros(2, 20, 2, 16, dtype=torch.bfloat16)
    flash = torch.ops.flash_attn._flash_attn_forward
    (op,) = record(lambda: flash(query, key, key, 0.0, 0.25, True, window, 0))
    assert op.name == FUSED
    assert op.flops == 4 * 2 * 8 * 16 * pairs
    assert op.inputs[0].shape == (2, 8, 3, 16)
    assert (op.bytes_in, op.bytes_out) == (2 * 2 * 16 * (3 * 8 + 20 * 2), 2 * 2 * 3 * 8 * 16)
    assert op.attributes["enable_gqa"] is True


def test_the_replacement_ends_with_the_recording() -> None:
    attention("meta")
    with sdpa_kernel(SDPBackend.MATH):
        query = torch.zeros(1, 2, 3, 4)
        assert F.scaled_dot_product_attention(query, query, query).device.type == "cpu"
