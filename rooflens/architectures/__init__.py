"""Model configurations: the ones that ship with the package, and any config.json by path.

Configurations are the publisher's own `config.json` values (Hugging Face field names), so that
theory, workloads and users' local directories are read by the same code.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from rooflens.errors import InputError, UsageError, did_you_mean

DEFAULT_MODEL = "qwen2.5-7b"
MAX_CONFIG_BYTES = 4 * 1024 * 1024


def names() -> list[str]:
    """Names of the shipped configurations, sorted."""
    folder = resources.files(__package__)
    return sorted(
        f.name.removesuffix(".json") for f in folder.iterdir() if f.name.endswith(".json")
    )


def load_config(model: str) -> dict[str, Any]:
    """Return the configuration of a shipped model, a Hugging Face directory or a config.json.

    Raises UsageError for an unknown name and InputError for a file that is no configuration.
    """
    lowered = model.lower().rsplit("/", 1)[-1].removesuffix("-instruct")
    if lowered in names() and not Path(model).exists():
        text = resources.files(__package__).joinpath(f"{lowered}.json").read_text("utf-8")
        return _parse(text, model)
    path = Path(model)
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        if path.suffix == ".json" or "/" in model:
            raise InputError(
                f"No model configuration at {path}.", "Give a directory or config.json."
            )
        raise UsageError(f'Unknown model "{model}".', did_you_mean(model, names()))
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise InputError(f"{path} is too large for a model configuration.")
    try:
        return _parse(path.read_text("utf-8"), str(path))
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text: not a config.json.") from None


def local_directory(model: str) -> Path | None:
    """The directory that holds the model's files when `model` is a path, else None."""
    path = Path(model)
    if path.is_dir():
        return path
    return path.parent if path.is_file() else None


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{where} is not valid JSON: {error}.") from None
    if not isinstance(config, dict) or "model_type" not in config:
        raise InputError(f'{where} is not a model configuration: it has no "model_type".')
    return config
