"""Small ncu CSV files, written as ncu prints them."""

from __future__ import annotations

from pathlib import Path

HEAD = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC"'  # noqa: E501


def ncu_csv(
    folder: Path, name: str, metrics: dict[str, tuple[str, str]], kernels: tuple[str, ...] = ("gemm_kernel",)  # noqa: E501
) -> Path:  # fmt: skip
    """A wide CSV with the same metrics for every kernel."""
    lines = [
        f"{HEAD}," + ",".join(f'"{m}"' for m in metrics),
        ",".join(['""'] * 11) + "," + ",".join(f'"{u}"' for u, _ in metrics.values()),
    ]
    lines += [
        f'"{i}","1","/home/me/python","secret-host","{kernel}","1","7","(32, 1, 1)","(8, 1, 1)","0",'  # noqa: E501
        '"9.0",' + ",".join(f'"{v}"' for _, v in metrics.values())
        for i, kernel in enumerate(kernels)
    ]
    path = folder / name
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


TIME = {"gpu__time_duration.sum": ("ns", "1000")}
BYTES = {"dram__bytes.sum": ("byte", "5000")}
NORM = "vllm::rms_norm_kernel"
