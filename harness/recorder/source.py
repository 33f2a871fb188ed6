"""Find the line of the model's code that made an operator call."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import torch

_TORCH = str(Path(torch.__file__).resolve().parent)
_OWN = str(Path(__file__).resolve().parent)
_labels: dict[str, str | None] = {}


def calling_line(depth: int = 1) -> str:
    """`file.py:line in function` of the innermost frame outside torch; empty when there is none."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        file = frame.f_code.co_filename
        label = _labels.get(file, "") if file in _labels else _label(file)
        if label is not None:
            return f"{label}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


def _label(file: str) -> str | None:
    """How to show a file: relative to where it is imported from; None inside torch and here.

    Never more than the file's name when it lies outside every import path, because the rest may be
    somebody's home folder.
    """
    _labels[file] = _shown(file)
    return _labels[file]


def _shown(file: str) -> str | None:
    if file.startswith("<"):
        return file if file != "<frozen importlib._bootstrap>" else None
    path = Path(file).resolve()
    if path.is_relative_to(_TORCH) or path.is_relative_to(_OWN):
        return None
    for marker in ("site-packages", "dist-packages"):
        if marker in path.parts:
            start = len(path.parts) - 1 - path.parts[::-1].index(marker)
            return "/".join(path.parts[start + 1 :])
    for name, module in tuple(sys.modules.items()):
        if getattr(module, "__file__", None) == file and name not in ("__main__", "__mp_main__"):
            return name.replace(".", "/") + ("/__init__.py" if path.stem == "__init__" else ".py")
    return path.name
