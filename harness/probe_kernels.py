"""Known work for the counters' self-check: `python -m rooflens.harness.probe_kernels DTYPE BYTES`.

One GEMM of known 2MNK and one copy of known bytes, each in an NVTX range of its own. A counter that
does not show this work must not be believed about any other.
"""

from __future__ import annotations

import sys

GEMM = "probe gemm"
COPY = "probe copy"
GEMM_SIZE = 4096
GEMM_FLOPS = 2 * GEMM_SIZE**3


def main(dtype: str, copied_bytes: int) -> None:
    """Run both once warm and once inside their ranges."""
    import torch

    from rooflens.workloads.annotate import Ranges

    ranges = Ranges()
    kind = getattr(torch, dtype)
    left = torch.randn(GEMM_SIZE, GEMM_SIZE, device="cuda", dtype=kind)
    right = torch.randn(GEMM_SIZE, GEMM_SIZE, device="cuda", dtype=kind)
    source = torch.randn(copied_bytes // 8, device="cuda", dtype=torch.float32)
    target = torch.empty_like(source)

    def multiply() -> None:
        torch.mm(left, right)

    def copy() -> None:
        target.copy_(source)

    for work, name in ((multiply, GEMM), (copy, COPY)):
        work()  # the first call chooses kernels and creates the context
        torch.cuda.synchronize()
        with ranges.range(name):
            work()
            torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
