"""The scaffolding of the C++ part: choosing an instruction set, threads, and errors in place of crashes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch

from tessera import native
from tessera.formats.dtype import DataType
from tessera.formats.layout import tilize, untilize
from tessera.formats.rounding import to_grid

pytestmark = pytest.mark.skipif(native.MODULE is None, reason="the native module is not built")
ALL = ("portable", "avx2", "avx512", "amx")


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)


def test_the_portable_path_is_always_there() -> None:
    assert native.MODULE is not None
    assert native.MODULE.runnable_isas()[0] == "portable"
    assert native.MODULE.isa() in native.MODULE.runnable_isas()


@pytest.mark.parametrize("isa", ALL)
def test_the_environment_chooses_or_says_why_not(isa: str) -> None:
    assert native.MODULE is not None
    done = python("import tessera._native as n; print(n.isa())", TESSERA_NATIVE_ISA=isa)
    if isa in native.MODULE.runnable_isas():
        assert done.stdout.strip() == isa
    else:
        assert done.returncode == 1
        assert "ImportError" in done.stderr
        assert f'"{isa}": this CPU cannot run it' in done.stderr


def test_an_unknown_instruction_set_is_an_error() -> None:
    assert native.MODULE is not None
    with pytest.raises(ValueError, match="must be portable, avx2, avx512 or amx"):
        native.MODULE.set_isa("sse9")
    assert "must be portable" in python("import tessera.native", TESSERA_NATIVE_ISA="sse9").stderr


def test_torch_alone_when_asked() -> None:
    assert python("import tessera.native as n; print(n.name(), n.MODULE)", TESSERA_NATIVE="0").stdout.split() == ["torch", "None"]


def test_bad_sizes_raise_before_memory_is_touched() -> None:
    assert native.MODULE is not None
    with pytest.raises(ValueError, match="element_size must be 1, 2, 4 or 8"):
        native.MODULE.tilize(0, 0, 3, 1, 1, 1, 32, 32, False, False, 0, 1)
    with pytest.raises(ValueError, match="tile: height"):
        native.MODULE.tilize(0, 0, 4, 1, 1, 1, 33, 32, False, False, 0, 1)
    with pytest.raises(ValueError, match="magnitude_bits"):
        native.MODULE.pack_blocks(0, 0, 0, 1, 1, 1, 32, 32, False, False, 5, False, 0.0, 1)
    with pytest.raises(ValueError, match="kind must be"):
        native.MODULE.quantize_blocks(0, 7, 0, 0, 1, 1, 7, False, 1)


def test_threads_do_not_change_results() -> None:
    before = torch.get_num_threads()
    values = torch.randn(700, 530)
    try:
        torch.set_num_threads(1)
        one = tilize(values), to_grid(values, DataType.BFLOAT8_B)
        torch.set_num_threads(4)
        four = tilize(values), to_grid(values, DataType.BFLOAT8_B)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(one[0], four[0])
    assert torch.equal(one[1], four[1])


def test_many_python_threads_share_the_pool() -> None:
    values = [torch.randn(300, 300) for _ in range(8)]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(20):
            if not torch.equal(untilize(tilize(values[i]), (300, 300)), values[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)


def test_a_forked_child_has_a_pool_of_its_own() -> None:
    code = """
import os, torch
from tessera.formats.layout import tilize
torch.set_num_threads(2)
x = torch.randn(1000, 1000)
want = tilize(x)
pid = os.fork()
if pid == 0:
    os._exit(0 if torch.equal(tilize(x), want) else 3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert python(code).stdout.strip() == "0"
