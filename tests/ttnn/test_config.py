"""`ttnn.CONFIG`: typed settings, files, overrides, and the block that puts a setting back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ttnn


def test_fields_are_typed() -> None:
    config = ttnn.Config()
    assert config.report_path is None
    assert repr(config).endswith("report_name=std::nullopt,strict_ccl_topology=false,std::nullopt}")
    config.report_name = "My Report!!"
    assert config.report_path.name.startswith("my_report_")
    config.cache_path = "/x"
    assert config.cache_path == Path("/x")
    assert config.comparison_mode_pcc == pytest.approx(0.9998999834, abs=1e-10)
    for name, value, error in (("enable_logging", 1, TypeError), ("comparison_mode_pcc", "a", TypeError), ("foo", 1, AttributeError)):
        with pytest.raises(error):
            setattr(config, name, value)


def test_overrides_apply_whole_or_not_at_all() -> None:
    config = ttnn.Config()
    with pytest.raises(ValueError, match="foo"):
        config.apply_json_overrides('{"enable_logging": true, "foo": 1}')
    assert not config.enable_logging
    for text in ('{"enable_logging": 1}', "[]", "{"):
        with pytest.raises(RuntimeError):
            config.apply_json_overrides(text)
    config.apply_json_overrides('{"enable_logging": true, "foo": 1}', strict=False)
    assert config.enable_logging


def test_manage_config_puts_the_value_back() -> None:
    with pytest.raises(ZeroDivisionError), ttnn.manage_config("enable_logging", True):
        assert ttnn.CONFIG.enable_logging
        raise ZeroDivisionError
    assert not ttnn.CONFIG.enable_logging
    with pytest.raises(AttributeError), ttnn.manage_config("foo", 1):
        pass


def test_files_round_trip(tmp_path: Path) -> None:
    config = ttnn.Config()
    config.report_name = "r"
    config.save_to_file(tmp_path / "deep" / "config.json")
    other = ttnn.Config()
    other.load_from_file(tmp_path / "deep" / "config.json")
    assert other.as_dict() == config.as_dict()
    assert ttnn.Config(config).report_name == "r"


def test_environment(tmp_path: Path) -> None:
    """A missing file is created; the overrides win over the file."""
    path = tmp_path / "config.json"
    script = "import ttnn; print(ttnn.CONFIG.enable_logging, ttnn.CONFIG.enable_graph_report, ttnn.CONFIG_PATH)"

    def run(**env: str) -> str:
        done = subprocess.run([sys.executable, "-c", script], env=os.environ | env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert run(TTNN_CONFIG_PATH=str(path)) == f"False False {path}"
    written = json.loads(path.read_text())
    assert set(written) == set(ttnn.Config.keys())
    path.write_text(json.dumps({"enable_logging": True, "enable_graph_report": True, "from_another_version": 1}))
    assert run(TTNN_CONFIG_PATH=str(path), TTNN_CONFIG_OVERRIDES='{"enable_graph_report": false}') == f"True False {path}"
