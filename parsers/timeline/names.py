"""Names in a timeline: numbers that change per call, steps, phases, kinds of API calls."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from rooflens.parsers.timeline.trace import Int, Names

ROOFLENS_DOMAIN = "rooflens"

_PER_CALL = re.compile(r",? (?:op_id|seq) = \d+")
"""PyTorch's emit_nvtx writes `aten::add, seq = 5, op_id = 7`: unique per call."""
_LAYER = re.compile(r"(?<![\w])((?:layers?|h|blocks?)[. ])\d+")
"""As in reports/join/kernel_rows.py: one kernel in all layers is one row."""
_NUMBERED_STEP = re.compile(r"^(ProfilerStep|step|iteration|iter)[ _#:-]*\d+$", re.IGNORECASE)

STEP = re.compile(
    r"^(?:profilerstep|step|iteration|iter|decode|prefill|verify|forward|generate)"
    r"(?:[ _#:\-]*\d+)?$",
    re.IGNORECASE,
)
"""A range that is one step by its name alone."""
VLLM_STEP = re.compile(r"^execute_context_(\d+)\((\d+)[^)]*\)_generation_(\d+)\((\d+)[^)]*\)$")
"""vLLM: sequences (tokens) in prefill, then in decode."""
PHASE_WORDS = ("prefill", "decode", "verify", "extend")
WARM_UP = re.compile(r"warm[ _-]?up|capture_\d+|calibrat|compil", re.IGNORECASE)

SYNC_CALL = re.compile(r"(?:cuda|cu|hip)\w*Synchronize|cudaMemcpy$|cuMemcpy[DH]to[DH]$|hipMemcpy$")
GRAPH_LAUNCH = re.compile(r"GraphLaunch")
MEMORY_CALL = re.compile(r"Malloc|Free|MemAlloc|MemMap|HostAlloc|HostRegister")
COMPILE_CALL = re.compile(r"ModuleLoad|LibraryLoad|LinkCreate|ModuleGet|LibraryGet")
SPLIT_KV = re.compile(r"split_?kv|FlashAttnFwdCombine|flash_decod|paged_attention|combine_attn",
                      re.IGNORECASE)  # fmt: skip
"""Kernels that only decode needs: few queries, so the keys are split and combined."""
ONCE_PER_STEP = re.compile(
    r"embedding|indexSelect|ArgMax|argmax|sampl(?:e|ing)|topk|multinomial", re.IGNORECASE
)
"""Kernels that a whole step has and a layer has not: token embedding, choice of the next token."""
KV_WRITE = re.compile(r"reshape_and_cache")
"""vLLM's KV write: one block per new token (csrc/cache_kernels.cu: `dim3 grid(num_tokens)`)."""


def without_ids(names: Sequence[str]) -> tuple[Int, list[str]]:
    """Index of each name once per-call numbers are gone, and the texts left."""
    kept = Names()
    index = np.array([kept.add(grouping_name(name)) for name in names], dtype=np.int64)
    return index, kept.texts()


def grouping_name(name: str) -> str:
    """A range name without numbers per call, step or layer.

    `aten::add, op_id = 7` -> `aten::add`; `step 3` -> `step`; `layer 3` -> `layer *`.
    """
    if " = " in name:
        name = _PER_CALL.sub("", name)
    name = _LAYER.sub(r"\1*", name)
    match = _NUMBERED_STEP.match(name)
    return match.group(1) if match else name


def phase_of_name(name: str) -> str:
    """`prefill`, `decode`, `verify` or `mixed` if a range name says so, else empty."""
    match = VLLM_STEP.match(name)
    if match:
        context, generation = int(match.group(1)), int(match.group(3))
        return "mixed" if context and generation else "prefill" if context else "decode"
    lowered = name.lower()
    found = [word for word in PHASE_WORDS if word in lowered]
    if len(found) != 1:
        return ""
    return "prefill" if found[0] == "extend" else found[0]


def tokens_of_name(name: str) -> int | None:
    """New tokens of a step where its range says (vLLM)."""
    match = VLLM_STEP.match(name)
    return int(match.group(2)) + int(match.group(4)) if match else None
