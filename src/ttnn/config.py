"""`ttnn.CONFIG`: what the session is asked to do besides computing.

Settings come, in this order, from their defaults, from the JSON file that `TTNN_CONFIG_PATH` names (written with the
present settings where it does not exist yet), and from the JSON text in `TTNN_CONFIG_OVERRIDES`. An unknown key in the
last is an error; in a file, which may be older or newer than this library, it is a warning.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

_CACHE = Path.home() / ".cache" / "ttnn"


def _path(value: Any) -> Path:
    return Path(value)


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"must be a bool, got {value!r}")
    return value


def _float32(value: Any) -> float:
    return float(np.float32(value))


def _name(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"must be a string or None, got {value!r}")
    return value


def _folder(value: Any) -> Path | None:
    return None if value is None or value == "" else Path(value)


def _style(value: Any) -> str:
    if value not in ("guide", "tt-metal"):
        raise TypeError(f'must be "guide" or "tt-metal", got {value!r}')
    return str(value)


FIELDS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "cache_path": (_path, _CACHE),
    "model_cache_path": (_path, _CACHE / "models"),
    "tmp_dir": (_path, Path("/tmp/ttnn")),
    "enable_model_cache": (_bool, False),
    "enable_fast_runtime_mode": (_bool, True),
    "validate_program_args": (_bool, False),
    "throw_exception_on_fallback": (_bool, False),
    "enable_logging": (_bool, False),
    "enable_graph_report": (_bool, False),
    "enable_graph_python_stack_traces": (_bool, False),
    "enable_detailed_buffer_report": (_bool, False),
    "enable_detailed_tensor_report": (_bool, False),
    "enable_comparison_mode": (_bool, False),
    "comparison_mode_should_raise_exception": (_bool, False),
    "comparison_mode_pcc": (_float32, 0.9999),
    "root_report_path": (_path, Path("generated/ttnn/reports")),
    "report_name": (_name, None),
    "strict_ccl_topology": (_bool, False),
    "operation_parameter_log_dir": (_folder, None),
    "operation_trace_style": (_style, "guide"),
}
"""Name: (what makes a value of it, default)."""

#: Settings that official TT-NN does not have; they are left out where it shows all of its own.
OWN = ("operation_parameter_log_dir", "operation_trace_style")


_watched: dict[str, Callable[[Any], None]] = {}


def when_set(name: str, call: Callable[[Any], None]) -> None:
    """Call a function with the new value whenever a setting of `ttnn.CONFIG` is set, and now if it is set already."""
    _watched[name] = call
    if getattr(CONFIG, name) != FIELDS[name][1]:
        call(getattr(CONFIG, name))


class Config:
    """The settings; each is an attribute that refuses values of the wrong type."""

    __slots__ = (*FIELDS, "_named_at")

    def __init__(self, other: Config | None = None) -> None:
        if other is not None and not isinstance(other, Config):
            raise TypeError(f"Config(): incompatible function arguments. It takes another Config or nothing, got {other!r}")
        object.__setattr__(self, "_named_at", "" if other is None else other._named_at)
        for name, (make, default) in FIELDS.items():
            object.__setattr__(self, name, make(default) if other is None else getattr(other, name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in FIELDS:
            raise AttributeError(f"'Config' object has no attribute '{name}'")
        try:
            made = FIELDS[name][0](value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"CONFIG.{name}: incompatible value {value!r}: {error}") from None
        object.__setattr__(self, name, made)
        if name == "report_name":
            object.__setattr__(self, "_named_at", time.strftime("%b%d_%H%M").lower())
        if name in _watched and self is globals().get("CONFIG"):
            _watched[name](made)

    @staticmethod
    def keys() -> list[str]:
        return [name for name in FIELDS if name not in OWN]

    @property
    def report_path(self) -> Path | None:
        """Where the report of this session goes; it has one once it has a name."""
        name: str | None = self.report_name
        if name is None:
            return None
        snake = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:64]
        return Path(self.root_report_path) / f"{snake}_{self._named_at}"

    def as_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in FIELDS}
        return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}

    def apply(self, values: Mapping[str, Any], strict: bool = True, source: str = "") -> None:
        """Set several settings; all are checked before the first is set."""
        where = f" in {source}" if source else ""
        fresh = Config(self)
        for name, value in values.items():
            if name not in FIELDS:
                if strict:
                    raise ValueError(f"unknown configuration key {name!r}{where}; the keys are {', '.join(FIELDS)}")
                from loguru import logger  # only a strange file needs it, and it is slow to import

                logger.warning(f"ttnn: configuration key {name!r}{where} is not known and is left out")
                continue
            try:
                setattr(fresh, name, value)
            except TypeError as error:
                raise RuntimeError(f"Bad value for configuration key {name}{where}: {error}") from None
        for name in values.keys() & FIELDS.keys():
            setattr(self, name, getattr(fresh, name))

    def apply_json_overrides(self, json_text: str, strict: bool = True, source: str = "") -> None:
        try:
            values = json.loads(json_text)
        except json.JSONDecodeError as error:
            raise RuntimeError(f"configuration overrides{f' in {source}' if source else ''} are not JSON: {error}") from None
        if not isinstance(values, dict):
            raise RuntimeError(f"configuration overrides must be a JSON object, got {json_text!r}")
        self.apply(values, strict, source)

    def load_from_file(self, path: str | os.PathLike[str]) -> None:
        self.apply_json_overrides(Path(path).read_text(), strict=False, source=str(path))

    def save_to_file(self, path: str | os.PathLike[str]) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f"{target.name}.{os.getpid()}.part")
        kept = {name: value for name, value in self.as_dict().items() if name not in OWN or value != FIELDS[name][1]}
        scratch.write_text(json.dumps(kept, indent=4) + "\n")
        scratch.replace(target)

    def __repr__(self) -> str:
        return (
            "Config{"
            + ",".join(f"{name}={_shown(getattr(self, name))}" for name in FIELDS if name not in OWN)
            + f",{_shown(self.report_path)}}}"
        )


def _shown(value: Any) -> str:
    if value is None:
        return "std::nullopt"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def load_config_from_dictionary(config: Mapping[str, Any], from_file: bool = False, source: str | None = None) -> None:
    """Set several settings of `ttnn.CONFIG`; what a file does not know is let pass."""
    CONFIG.apply(config, strict=not from_file, source=source or "")


def load_config_from_json_file(json_path: str | os.PathLike[str]) -> None:
    CONFIG.load_from_file(json_path)


def save_config_to_json_file(json_path: str | os.PathLike[str]) -> None:
    CONFIG.save_to_file(json_path)


@contextmanager
def manage_config(name: str, value: Any) -> Iterator[None]:
    """One setting changed for the length of a `with` block."""
    if name not in FIELDS:
        raise AttributeError(f"manage_config: 'Config' object has no attribute {name!r}; the settings are {', '.join(FIELDS)}")
    before = getattr(CONFIG, name)
    setattr(CONFIG, name, value)
    try:
        yield
    finally:
        setattr(CONFIG, name, before)


CONFIG = Config()
CONFIG_PATH: Path | None = Path(os.environ["TTNN_CONFIG_PATH"]) if os.environ.get("TTNN_CONFIG_PATH") else None
CONFIG_OVERRIDES: str | None = os.environ.get("TTNN_CONFIG_OVERRIDES") or None

if CONFIG_PATH is not None:
    if CONFIG_PATH.exists():
        CONFIG.load_from_file(CONFIG_PATH)
    else:
        CONFIG.save_to_file(CONFIG_PATH)
if CONFIG_OVERRIDES is not None:
    CONFIG.apply_json_overrides(CONFIG_OVERRIDES, source="TTNN_CONFIG_OVERRIDES")

__all__ = [
    "CONFIG",
    "CONFIG_OVERRIDES",
    "CONFIG_PATH",
    "Config",
    "load_config_from_dictionary",
    "load_config_from_json_file",
    "manage_config",
    "save_config_to_json_file",
]
