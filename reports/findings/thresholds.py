"""Every threshold of the rules, with its origin. No rule has a number of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Threshold:
    """A limit, what it means and where it comes from."""

    value: float
    meaning: str
    origin: str


OWN = "own choice, not measured"

VERIFY_TOKENS_MAX = Threshold(
    16,
    "new tokens per sequence up to which a step is a decode or a verify, not a prefill",
    "own choice: published speculative decoders draft 3 to 8 tokens, trees up to 16 a branch",
)
OVER_READ_MIN = Threshold(
    1.05, "keys read over keys filled from which a static cache is named", OWN
)
NORM_OPS_MIN = Threshold(
    3, "ops of one norm from which it is a chain", "a fused norm with residual is 1 or 2 calls"
)
ROPE_OPS_MIN = Threshold(
    4,
    "ops of one layer's rotation from which it is a chain",
    "fused kernels: 1, or 1 each for q, k",
)
COPY_TIME_SHARE_MIN = Threshold(
    0.02, "share of kernel time from which copies known by name only are named", OWN
)
PADDING_MIN = Threshold(1.05, "rows computed over tokens from which padding is named", OWN)
EXPERT_PRODUCTS_MIN = Threshold(
    3, "products of single experts in a layer from which they are a loop", "one expert has 2 or 3"
)
LORA_RANK_MAX = Threshold(
    256, "widest inner size of two products that is taken for an adapter", "ranks in use: 4 to 256"
)
VOCABULARY_MIN = Threshold(
    16384,
    "length of a sorted row that is taken for a vocabulary where no lm_head was recorded",
    "vocabularies of current models: 32,000 to 262,144",
)
SAMPLER_TIME_SHARE_MIN = Threshold(
    0.05, "share of kernel time from which sampling is named", "rules of public tools: 5 %"
)
MASK_RATIO_MIN = Threshold(2, "elements of a table over queries × keys from which it is named", OWN)
MASK_ELEMENTS_MIN = Threshold(4096, "elements below which a table costs nothing", OWN)

DECODE_BANDWIDTH_LOW = Threshold(
    0.5,
    "share of the DRAM roof below which a memory-bound attention kernel is slow",
    "sparkinfer#863: 635 of 1792 GB/s before, 1540 after",
)
L2_REREAD_MIN = Threshold(
    3, "L2 bytes over DRAM bytes from which K and V are read once per query head", OWN
)
MEMORY_BOUND_FLOP_SHARE_MAX = Threshold(
    0.5, "share of peak FLOPs up to which a kernel can be called memory bound", OWN
)
ATTENTION_BYTES_MIN = Threshold(
    4_000_000, "moved bytes below which an attention kernel is too short to judge", OWN
)
THIN_INTENSITY_MAX = Threshold(
    20,
    "FLOP per byte up to which a product is thin (about its number of rows)",
    "2MNK over 2NK bytes",
)
THIN_BANDWIDTH_LOW = Threshold(
    0.7,
    "share of the DRAM roof below which a thin product is slow",
    "public decode profiles: large projections at 85 to 95 %",
)
THIN_BANDWIDTH_GOOD = Threshold(
    0.85, "share of the DRAM roof that a good thin product reaches", "as above"
)
THIN_BYTES_MIN = Threshold(
    8_000_000, "moved bytes below which a product is bound by its launch, not by bandwidth", OWN
)
WAVE_TAIL_WASTE_MIN = Threshold(0.2, "share of a product's SM time lost in its last wave", OWN)
WAVE_SHARE_MAX = Threshold(
    0.6, "share of either roof above which the last wave does not matter", OWN
)
MISALIGNED_FLOP_SHARE_MAX = Threshold(
    0.2, "share of peak FLOPs above which an unaligned kernel is left alone", OWN
)
IDLE_SHARE_MIN = Threshold(
    0.2,
    "idle share of a step from which the host is the limit",
    "sam2#768: 7.27 of 53.7 ms busy; vllm.cpp#487: 100 % busy, a graph brought 3.2 %",
)
SHORT_KERNEL_NS = Threshold(
    10_000, "median kernel below which a launch (about 5 us) weighs", "pegainfer#163: 5 us a launch"
)
LAUNCHES_MIN = Threshold(500, "kernels per step from which launches can be the limit", OWN)
QUANT_TIME_SHARE_MIN = Threshold(0.05, "share of kernel time from which quantising is named", OWN)
COLLECTIVES_PER_LAYER = Threshold(
    2, "collectives that a dense tensor-parallel layer needs", "after o_proj and after down_proj"
)
COLLECTIVES_TOLERANCE = Threshold(
    0.5,
    "collectives per layer above what is needed that captured kernels may show",
    "embedding and logits need one each per step, and prefill chunks split",
)
L2_RESIDENT_MAX = Threshold(
    0.7, "moved over minimum bytes below which the cache served the operator", OWN
)
CLOCK_TOLERANCE = Threshold(0.05, "difference of clocks that forbids comparing times", OWN)
SLOWER_MIN = Threshold(
    0.05,
    "relative growth of a time from which a difference is slower",
    "identical code differs by up to 5 % between runs (aprender#2009: 13 %, across jobs more)",
)
NODES_PER_LAUNCH_MIN = Threshold(
    1.5, "kernels per launching call from which a step was launched as graphs", OWN
)
PEAK_TOLERANCE = Threshold(
    1.05, "share of a hardware peak above which a capture contradicts itself", "clock rounding"
)
