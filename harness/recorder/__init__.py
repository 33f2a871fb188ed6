"""Record every operator call of a step: shapes, storage, requested bytes, FLOPs, module, time.

Start here: `record(call, model)` runs any torch callable once and returns its ops (classes are set
later, by `rooflens.reports.classify`). `Recorder` is the same as a context manager.

    storage.py      which memory a tensor is, and how much of it a view touches
    accesses.py     which tensors an operator reads and writes, and how many bytes of each
    flops.py        matrix-product and attention FLOPs; elementwise.py  all other arithmetic
    attention.py    one fused call for scaled_dot_product_attention on every device
    modules.py      where in the model we are, and what is weight, cache and input
    source.py       the line of the model's code that made the call
    calls.py        a call while the recording runs, before roles are known
    mode.py         the dispatch mode that puts it together
"""

from __future__ import annotations

from rooflens.harness.recorder.mode import Recorder, record

__all__ = ["Recorder", "record"]
