"""One op for a fused attention call, whatever device it runs on.

On CPU and CUDA torch turns `F.scaled_dot_product_attention` into one fused operator of its own
choice; those are all recorded under one name, with q, k, v, mask and output. On meta torch falls
back to the composite (clones, bmm, softmax), which is not what a GPU runs, so there the call is
replaced by one recorded op. `sdpa_kernel(SDPBackend.MATH)` is honoured: then the composite runs and
is recorded. So is a call whose shapes no fused kernel takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

FUSED_NAME = "aten.scaled_dot_product_attention"
BACKEND = re.compile(
    r"^aten\._scaled_dot_product_(?P<backend>flash_attention_for_cpu|flash_attention|"
    r"efficient_attention|cudnn_attention|fused_attention_overrideable|"
    r"attention_math_for_mps)$"
)


@dataclass(frozen=True)
class FusedCall:
    """The tensors and settings of one fused attention call."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    output: torch.Tensor
    causal: bool
    scale: float | None
    backend: str
    bottom_right: bool = False
    window: int | None = None
    modelled: bool = False

    @property
    def grouped(self) -> bool:
        """Fewer key heads than query heads."""
        return self.query.shape[-3] != self.key.shape[-3] if self.query.ndim > 2 else False


def fused_call(
    name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> FusedCall | None:
    """Read torch's own fused attention operators, or the FlashAttention stand-in; else None."""
    if name == "rooflens.flash_attention_2":
        query, key, value, causal, window = args[:5]
        # The package's layout is (batch, tokens, heads, size); shapes are shown heads first.
        return FusedCall(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), None,
            output.transpose(1, 2), bool(causal), None, "flash_attention_2",
            bottom_right=True, window=window or None, modelled=True,
        )  # fmt: skip
    if name == "flash_attn._flash_attn_forward":
        return _flash_attn(func, args, kwargs, output)
    match = BACKEND.match(name)
    if match is None:
        return None
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    mask = given.get("attn_mask", given.get("attn_bias"))
    return FusedCall(
        given["query"], given["key"], given["value"],
        mask if isinstance(mask, torch.Tensor) else None,
        output[0] if isinstance(output, (tuple, list)) else output,
        bool(given.get("is_causal", False)), given.get("scale"), match["backend"],
    )  # fmt: skip


def _flash_attn(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> FusedCall:
    """The operator of the package flash-attn: (batch, tokens, heads, size), causal to the right."""
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    left = given.get("window_size_left", -1)
    return FusedCall(
        given["q"].transpose(1, 2), given["k"].transpose(1, 2), given["v"].transpose(1, 2), None,
        output[0].transpose(1, 2), bool(given.get("causal")), given.get("softmax_scale"),
        "flash_attn", bottom_right=True, window=left + 1 if left >= 0 else None,
    )  # fmt: skip


def only_math_allowed() -> bool:
    """Whether `sdpa_kernel(SDPBackend.MATH)` (or the global switches) leave only the composite."""
    backends: Any = torch.backends.cuda
    return not (
        backends.flash_sdp_enabled()
        or backends.mem_efficient_sdp_enabled()
        or backends.cudnn_sdp_enabled()
    )


def has_fused_kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether some kernel of torch fuses a call of these shapes, on a GPU or on the CPU.

    What else decides on a GPU (dtype, head size, a mask with grouped heads) is not modelled: where
    it falls back to the composite, only a capture on that GPU can show it.
    """
    four = query.ndim == key.ndim == value.ndim == 4
    return four and query.shape[-1] == key.shape[-1] and query.numel() > 0


class FusedOnMeta(TorchFunctionMode):
    """Replace `F.scaled_dot_product_attention` on meta by one recorded op."""

    def __init__(self, recorded: Callable[[FusedCall], None]) -> None:
        super().__init__()
        self._recorded = recorded

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            output = self._fused(*args, **kwargs)
            if output is not None:
                return output
        return func(*args, **kwargs)

    def _fused(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor | None:
        if query.device.type != "meta" or dropout_p or only_math_allowed():
            return None
        if not has_fused_kernel(query, key, value):
            return None
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            # Fused kernels add their mask: torch turns a boolean one into numbers in every call.
            blocked = torch.scalar_tensor(float("-inf"), dtype=query.dtype, device="meta")
            attn_mask = torch.where(attn_mask, 0.0, blocked)
        # Flash kernels lay their output out like the query, so that the transpose back to
        # (batch, tokens, heads, size) costs a copy only where the query was laid out by heads.
        output = torch.empty_like(query)
        if value.shape[-1] != query.shape[-1]:  # MLA: only memory-efficient kernels take this
            batch, heads, tokens, _ = query.shape
            output = query.new_empty((batch, tokens, heads, value.shape[-1])).transpose(1, 2)
        self._recorded(FusedCall(query, key, value, attn_mask, output, is_causal, scale, "meta"))
        return output
