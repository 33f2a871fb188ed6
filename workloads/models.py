"""Build the model of a step: transformers' own code, the true config, dummy or real weights.

Dummy weights of a large model share storage: all layers use the memory of one, and the embedding
that of the output head. A step then reads as many DRAM bytes as the real model, because one layer
is several times larger than the last-level cache, while a tenth of the memory is held.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rooflens.architectures import load_config, local_directory
from rooflens.errors import InputError, UsageError
from rooflens.workloads.fill import fill, random_block
from rooflens.workloads.spec import StepSpec

CACHE_MULTIPLE = 3
"""Layers share storage when one is at least so many times the last-level cache."""

ASSUMED_CACHE_BYTES = 128 * 1024 * 1024
"""When the machine's cache is not known: the largest of common machines."""

WEIGHT_SCALE = 0.02
"""Deviation of dummy weights (the `initializer_range` of Qwen2 and Llama)."""

_LAYER = re.compile(r"\.(\d+)\.")


@dataclass(frozen=True)
class LoadedModel:
    """A model on its device, and what its weights are."""

    model: Any
    dtype: torch.dtype
    weights: str
    """`dummy (layers share storage)`, `dummy-full`, `real` or `none (meta)`."""
    params: int
    """Logical parameters of what was built, whatever storage is shared."""
    held_bytes: int
    """Memory that the weights occupy."""


def load_model(spec: StepSpec, cache_bytes: int | None = None) -> LoadedModel:
    """Build the model of `spec` on its device, ready to run.

    `cache_bytes` is the size of the last-level cache, which decides whether dummy layers may share
    storage. Raises UsageError for an architecture or attention that cannot run here, InputError
    for weights that do not fit the config.
    """
    _quiet_transformers()
    config = model_config(spec)
    dtype = getattr(torch, model_dtype(spec))
    directory = real_weights(spec)
    if spec.device != "meta" and directory is not None:
        model = _from_files(directory, config, dtype).to(spec.device)
        return LoadedModel(model.eval(), dtype, "real", _count(model), held_bytes(model))
    model = _skeleton(config, dtype)
    params = _count(model)
    if spec.device == "meta":
        return LoadedModel(model.eval(), dtype, "none (meta)", params, 0)
    shared = shares_layers(model, spec.weights, cache_bytes)
    _fill_weights(model, spec, shared)
    _rebuild_rotary_tables(model, spec.device)
    _fill_buffers(model, spec)
    _refuse_unfilled(model)
    weights = "dummy (layers share storage)" if shared else "dummy-full"
    return LoadedModel(model.eval(), dtype, weights, params, held_bytes(model))


def model_dtype(spec: StepSpec) -> str:
    """The dtype of the step: as asked for, else the model's own."""
    config = load_config(spec.model)
    own = config.get("dtype") or config.get("torch_dtype") or "bfloat16"
    return spec.dtype or str(own).removeprefix("torch.")


def model_config(spec: StepSpec) -> Any:
    """transformers' config object of the step, with its attention and number of layers set."""
    from transformers import AutoConfig

    values = dict(load_config(spec.model))
    kind = values.pop("model_type")
    if spec.layers is not None:
        total = int(values.get("num_hidden_layers", spec.layers))
        if spec.layers > total:
            raise UsageError(f"--layers {spec.layers}: {spec.model} has {total} layers.")
        values["num_hidden_layers"] = spec.layers
        if values.get("layer_types"):
            values["layer_types"] = values["layer_types"][: spec.layers]
    values.pop("torch_dtype", None)
    values.pop("dtype", None)
    if values.get("head_dim", 0) is None:  # "not given" in some public configurations
        values.pop("head_dim")
    try:
        config = AutoConfig.for_model(kind, **values)
    except ValueError:
        raise UsageError(
            f'transformers here does not know the architecture "{kind}" of {spec.model}.',
            "Use a Qwen2- or Llama-shaped model, or a newer transformers.",
        ) from None
    except Exception as error:  # transformers checks types with exceptions of several libraries
        raise UsageError(
            f"transformers does not accept the configuration of {spec.model}: {_one_line(error)}",
            "Correct the configuration.",
        ) from None
    config._attn_implementation = _attention(spec)
    return config


def real_weights(spec: StepSpec) -> Path | None:
    """The directory to read weights from, or None for dummy weights."""
    if spec.weights in ("dummy", "dummy-full"):
        return None
    if spec.weights == "auto":
        directory = local_directory(spec.model)
        return directory if directory and any(directory.glob("*.safetensors")) else None
    directory = Path(spec.weights)
    if not any(directory.glob("*.safetensors")):
        raise UsageError(
            f'--weights "{spec.weights}": no *.safetensors there.',
            "Give a directory with safetensors files, dummy or dummy-full.",
        )
    return directory


def shares_layers(model: nn.Module, weights: str, cache_bytes: int | None) -> bool:
    """Whether dummy layers share storage: one layer must be far larger than the cache."""
    if weights == "dummy-full":
        return False
    layer_bytes = sum(
        parameter.numel() * parameter.element_size()
        for name, parameter in model.named_parameters()
        if (match := _LAYER.search(name)) and match[1] == "0"
    )
    cache = ASSUMED_CACHE_BYTES if cache_bytes is None else cache_bytes
    return layer_bytes >= CACHE_MULTIPLE * cache


def held_bytes(model: nn.Module) -> int:
    """Memory behind the parameters, each storage once."""
    storages = {
        parameter.untyped_storage()._cdata: parameter.untyped_storage().nbytes()
        for parameter in model.parameters()
    }
    return sum(storages.values())


def _attention(spec: StepSpec) -> str:
    if spec.attention != "flash_attention_2":
        return spec.attention
    if spec.device == "meta":
        from rooflens.workloads.flash import register_stand_in

        return register_stand_in()
    import importlib.util

    if importlib.util.find_spec("flash_attn") is None:
        raise UsageError(
            "--attention flash_attention_2 needs the package flash-attn, which is not installed.",
            "Install it (CUDA only), use --attention sdpa, or --device meta for counts.",
        )
    return spec.attention


def _skeleton(config: Any, dtype: torch.dtype) -> Any:
    """The model without memory: every parameter on meta, none initialised."""
    auto: Any = _auto_model()
    try:
        return _empty_model(auto, config, dtype)
    except KeyError as error:  # a table of its own has no such activation or rope type
        raise UsageError(
            f"transformers cannot build this model: it knows no {error} that the configuration "
            "asks for.",
            "Correct the configuration, or install a transformers that knows it.",
        ) from None
    except ValueError as error:
        first = str(error).split(". ")[0].splitlines()[0]
        raise UsageError(f"transformers cannot build this model: {first}.") from None
    except (TypeError, AttributeError) as error:  # a value of the configuration has a wrong type
        raise UsageError(
            f"transformers cannot build this model: {_one_line(error)}",
            "Correct the configuration.",
        ) from None


def _one_line(error: Exception) -> str:
    words = " ".join(str(error).split())
    return (words if len(words) <= 200 else f"{words[:199]}…").rstrip(".") + "."


def _empty_model(auto: Any, config: Any, dtype: torch.dtype) -> Any:
    with torch.device("meta"):
        return auto.from_config(
            config, dtype=dtype, attn_implementation=config._attn_implementation
        )


def _from_files(directory: Path, config: Any, dtype: torch.dtype) -> Any:
    from safetensors import SafetensorError

    try:
        model, info = _auto_model().from_pretrained(
            directory,
            config=config,
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"Cannot load the weights in {directory}: {first_line}") from None
    missing = sorted(info["missing_keys"])
    if missing:
        raise InputError(
            f"The weights in {directory} lack {missing[0]} ({len(missing)} missing).",
            "Download all files of the model, or use --weights dummy.",
        )
    return model


def _fill_weights(model: nn.Module, spec: StepSpec, shared: bool) -> None:
    """Give every parameter memory and random values, layer storage shared where allowed."""
    storages: dict[tuple[Any, ...], torch.Tensor] = {}
    blocks: dict[torch.dtype, torch.Tensor] = {}
    tied: dict[int, nn.Parameter] = {}
    for module, name, path, parameter in _parameters(model):
        if id(parameter) not in tied:
            if parameter.dtype not in blocks:
                blocks[parameter.dtype] = random_block(parameter.dtype, spec.seed, WEIGHT_SCALE)
            key = _storage_key(path, parameter, shared)
            if key not in storages:
                storages[key] = torch.empty(
                    parameter.shape, dtype=parameter.dtype, device=spec.device
                )
                fill(storages[key], blocks[parameter.dtype])
                if parameter.ndim == 1 and name == "weight":
                    storages[key].add_(1.0)  # norms scale by about one, or activations vanish
            # Parameters keep requires_grad, as those of a loaded model do: torch's matmul looks at
            # it when it chooses between mm and bmm, also under no_grad.
            tied[id(parameter)] = nn.Parameter(storages[key].detach())
        module._parameters[name] = tied[id(parameter)]


def _parameters(model: nn.Module) -> Iterator[tuple[nn.Module, str, str, nn.Parameter]]:
    for prefix, module in model.named_modules():
        for name, parameter in tuple(module._parameters.items()):
            if parameter is not None:
                yield module, name, f"{prefix}.{name}" if prefix else name, parameter


def _storage_key(path: str, parameter: nn.Parameter, shared: bool) -> tuple[Any, ...]:
    if not shared:
        return (path,)
    shape = (tuple(parameter.shape), parameter.dtype)
    if _LAYER.search(path):
        return (_LAYER.sub(".0.", path, count=1), *shape)
    # The embedding reads a row per token, the head all of its rows: one storage serves both.
    return ("outside layers", *shape) if parameter.ndim == 2 else (path,)


def _fill_buffers(model: nn.Module, spec: StepSpec) -> None:
    """Give values to what else came empty from meta (scales, routing biases), as to weights."""
    for module in model.modules():
        for name, buffer in tuple(module._buffers.items()):
            if buffer is not None and buffer.is_meta and buffer.is_floating_point():
                filled = torch.empty(buffer.shape, dtype=buffer.dtype, device=spec.device)
                fill(filled, random_block(buffer.dtype, spec.seed, WEIGHT_SCALE))
                module._buffers[name] = filled


def _rebuild_rotary_tables(model: nn.Module, device: str) -> None:
    """Replace rotary modules, whose tables were on meta, by new ones that hold their values.

    Their `inv_freq` stays in float32 on every device, as transformers keeps it.
    """
    for path, module in tuple(model.named_modules()):
        if "inv_freq" in module._buffers:
            parent = model.get_submodule(path.rpartition(".")[0])
            fresh = type(module)(module.config).to(device)
            setattr(parent, path.rpartition(".")[2], fresh)


def _refuse_unfilled(model: nn.Module) -> None:
    left = [
        name
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
        if tensor.device.type == "meta"
    ]
    if left:
        raise UsageError(
            f"Dummy weights do not cover {left[0]} of this architecture.",
            "Use a Qwen2- or Llama-shaped model, --device meta, or real weights.",
        )


def _count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _auto_model() -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM


def _quiet_transformers() -> None:
    import transformers.utils.logging

    logging: Any = transformers.utils.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
