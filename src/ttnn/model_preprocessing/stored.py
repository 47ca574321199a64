"""Parameters in a folder: their shape as JSON, each TT-NN tensor as a `.tensorbin`, torch tensors together as safetensors. Nothing is pickled.

A folder is written beside its place and put there in one step, so that it is whole or absent.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import shutil
import uuid
from pathlib import Path
from typing import Any

import torch
from loguru import logger
from safetensors.torch import load_file, save_file

import ttnn
from tessera import __version__
from ttnn.config import CONFIG
from ttnn.model_preprocessing.parameters import ParameterDict, ParameterList

FORMAT = 1
TREE, TORCH = "parameters.json", "torch.safetensors"


def version(*sources: Any) -> str:
    """What must be the same for stored parameters to be used: this library, and the functions that made them."""
    texts = [str(FORMAT), __version__]
    for source in sources:
        try:
            texts.append(inspect.getsource(source) if callable(source) else repr(source))
        except (OSError, TypeError):
            texts.append(getattr(source, "__qualname__", repr(type(source))))
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _place(model_name: str) -> Path:
    return Path(CONFIG.model_cache_path) / re.sub(r"[^\w.-]+", "_", model_name)


def find(model_name: str, wanted: str) -> Any:
    """The stored parameters of a model, or None."""
    place = _place(model_name)
    if not (place / TREE).exists():
        return None
    try:
        if json.loads((place / TREE).read_text())["version"] != wanted:
            return None
        return load_parameters(place)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        logger.warning(f"preprocess_model_parameters: the cache in {place} cannot be read and is made anew: {error}")
        return None


def keep(model_name: str, made_by: str, parameters: Any) -> None:
    try:
        dump_parameters(_place(model_name), parameters, made_by)
    except (OSError, RuntimeError) as error:
        logger.warning(f"preprocess_model_parameters: the parameters could not be kept in {_place(model_name)}: {error}")


def dump_parameters(folder: str | os.PathLike[str], parameters: Any, made_by: str = "") -> None:
    """Write parameters into a folder, in place of what was there."""
    place = Path(folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    scratch.mkdir()
    try:
        plain: dict[str, torch.Tensor] = {}
        tree = _stored(parameters, scratch, plain, [0])
        if plain:
            save_file(plain, scratch / TORCH)
        (scratch / TREE).write_text(json.dumps({"version": made_by, "tree": tree}))
        if place.exists():
            old = scratch.with_name(f"{scratch.name}.old")
            place.rename(old)
            scratch.rename(place)
            shutil.rmtree(old)
        else:
            scratch.rename(place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _stored(value: Any, folder: Path, plain: dict[str, torch.Tensor], count: list[int]) -> Any:
    if isinstance(value, ttnn.Tensor):
        count[0] += 1
        ttnn.dump_tensor(folder / f"{count[0]}.tensorbin", ttnn.from_device(value))
        return {"tensor": f"{count[0]}.tensorbin"}
    if isinstance(value, torch.Tensor):
        plain[str(len(plain))] = value.detach().contiguous().clone()
        return {"torch": str(len(plain) - 1)}
    if isinstance(value, dict):
        return {"dict": [[key, _stored(v, folder, plain, count)] for key, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"list": [_stored(v, folder, plain, count) for v in value]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    raise RuntimeError(f"parameters hold a {type(value).__name__}, which cannot be stored")


def load_parameters(folder: str | os.PathLike[str], *, device: Any = None) -> Any:
    """Parameters from a folder; tensors are mapped, not read."""
    place = Path(folder)
    tree = json.loads((place / TREE).read_text())["tree"]
    plain = load_file(place / TORCH) if (place / TORCH).exists() else {}
    return _loaded(tree, place, plain, device)


def _loaded(tree: dict[str, Any], folder: Path, plain: dict[str, torch.Tensor], device: Any) -> Any:
    ((kind, held),) = tree.items()
    if kind == "tensor":
        name = Path(held).name  # a file beside this one, whatever is written
        return ttnn.load_tensor(folder / name, device=device)
    if kind == "torch":
        return plain[held]
    if kind == "dict":
        return ParameterDict({key: _loaded(v, folder, plain, device) for key, v in held})
    if kind == "list":
        return ParameterList(_loaded(v, folder, plain, device) for v in held)
    if kind == "value":
        return held
    raise ValueError(f"{folder / TREE}: unknown kind {kind!r}")
