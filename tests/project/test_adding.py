"""An operation, a dtype and a board are added to a copy of the sources as CONTRIBUTING.md says, and used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()

OPERATION = """

@operation("ttnn.twice", golden=lambda input_tensor, **_: input_tensor * 2)
def twice(input_tensor, *, memory_config=None):
    require_device("twice", input_tensor)
    return launch("TwiceDeviceOperation", lambda x: x.float() * 2, [input_tensor], like(input_tensor, memory_config=memory_config))
"""

PROGRAM = """
import torch, ttnn
from tessera.formats.dtype import DataType
from tessera.silicon import board

assert "p150x" in board.names()
with ttnn.manage_device(0) as device:
    assert device.board.name == "p150x"
    given = torch.randn(5, 40)
    x = ttnn.from_torch(given, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    assert torch.equal(ttnn.to_torch(ttnn.twice(x)), given.bfloat16() * 2)
    assert ttnn.get_golden_function(ttnn.twice)(3) == 6
    assert ttnn.twice in ttnn.query_registered_operations()
    for layout in (ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT):
        half = ttnn.from_torch(given, dtype=DataType.FLOAT16, layout=layout, device=device)
        assert torch.equal(ttnn.to_torch(half), given.half())
        assert torch.equal(ttnn.to_torch(ttnn.relu(half)), given.half().relu())
        assert "DataType::FLOAT16" in str(half)
    assert half.buffer_page_size() == 2048
    assert torch.equal(ttnn.to_torch(ttnn.typecast(half, ttnn.float32)), given.half().float())
    assert torch.equal(ttnn.from_device(half).to_torch_with_padded_shape()[:5, :40], given.half())
"""


def insert(path: Path, before: str, text: str) -> None:
    found = path.read_text()
    assert found.count(before) == 1
    path.write_text(found.replace(before, text + before))


def test_what_the_page_says_is_enough(tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "pybuda"))
    # A dtype: the page's own two lines.
    (block,) = re.findall(r"```python\n(FLOAT16.*?)```", PAGE, re.DOTALL)
    member, row = (line.split("#")[0].strip() for line in block.strip().splitlines())
    formats = source / "tessera" / "formats" / "dtype.py"
    insert(formats, "\n\nclass Layout(", f"    {member}\n")
    text = formats.read_text().replace(f"{row.removesuffix(', DataType.FLOAT16),')}),", row)  # it is there already, without a number
    assert row in text
    formats.write_text(text)
    # A board: a file with a name.
    boards = source / "tessera" / "silicon" / "boards"
    (boards / "p150x.yaml").write_text((boards / "p150.yaml").read_text().replace("name: p150", "name: p150x"))
    # An operation: a function in a family's file.
    family = source / "ttnn" / "operations" / "tilizing.py"
    family.write_text(family.read_text() + OPERATION)
    environment = os.environ | {"PYTHONPATH": str(source), "TESSERA_BOARD": "p150x", "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
