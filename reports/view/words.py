"""The glossary at the end of the page."""

from __future__ import annotations

from rooflens.reports.view.page import Word

WORDS: tuple[Word, ...] = (
    Word("step", "One forward pass: everything on this page is per step of the whole model."),
    Word(
        "op",
        "One operator call as the model asked for it, with its module, shapes and dtypes. "
        "A view that moves nothing is no op.",
    ),
    Word("operator class", "What an op is for: q_proj, attention, norm, lm_head and so on."),
    Word(
        "minimum",
        "Theory, operator by operator: every input read once, every output written once, and only "
        "the work that the model needs.",
    ),
    Word(
        "compulsory",
        "Theory, the whole step fused perfectly: weights, KV cache and logits only. The floor of a "
        "step is made from it.",
    ),
    Word(
        "requested",
        "Counted from the tensors of every op that really ran: what the program asked memory for.",
    ),
    Word("moved", "Hardware counters: what DRAM really transferred."),
    Word("executed", "Hardware counters: the FLOPs that the device really did."),
    Word(
        "software amplification",
        "Requested divided by minimum. Above 1, the program has to change: scores written to "
        "memory, copies, upcasts.",
    ),
    Word(
        "hardware amplification",
        "Moved divided by requested. Below 1, the cache absorbed traffic; above 1, the kernel "
        "reads again what it had.",
    ),
    Word(
        "floor",
        "The time that no implementation beats on this roof: the larger of bytes / bandwidth and "
        "FLOPs / peak.",
    ),
    Word(
        "operator floor",
        "The sum of every operator's own floor: what perfect kernels without fusion would take.",
    ),
    Word(
        "intensity", "FLOPs per byte. Left of the ridge memory is the limit, right of it compute."
    ),
    Word(
        "ridge", "Peak FLOP/s divided by bandwidth: the intensity at which both limits are equal."
    ),
    Word("gap", "Time minus floor: extra bytes, low efficiency, and idle between kernels."),
    Word("decode, prefill", "One new token per sequence; a whole prompt at once."),
    Word(
        "evidence",
        "Where a number comes from: theory (formulas), counted (tensors of ops), timeline (nsys, "
        "torch trace), counters (ncu), host clock (this process's own clock).",
    ),
    Word("NVTX", "Named ranges that a program marks, by which kernels are matched to layers."),
    Word("replay", "ncu runs a kernel several times to collect all counters: its times are slow."),
)
