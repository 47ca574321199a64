"""When a product is ours: small, with a bias, or with a packed right side; and that it is the same product."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("tessera._native")
from tessera.engine.matmul import matmul
from tessera.engine.native import matmul as native
from tessera.engine.packed import Packed
from tessera.formats.dtype import FORMATS, DataType
from tessera.formats.packing import pack_tiles, unpack_tiles


@pytest.mark.parametrize("shape", [(32, 64), (2, 3, 33, 64), (1, 1, 1, 64)])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
def test_right_side_of_one_matrix(shape: tuple[int, ...], with_bias: bool, narrow: bool) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(shape).bfloat16(), torch.randn(64, 96).bfloat16()
    rest = (torch.randn(1, 96).bfloat16(),) if with_bias else ()
    want = a.double() @ b.double() + (rest[0].double() if rest else 0.0)
    got = native.matmul(a, b, *rest, narrow=narrow)
    assert got.dtype is (torch.bfloat16 if narrow else torch.float32)
    torch.testing.assert_close(got.double(), want, rtol=2**-7, atol=1e-2)
    got = matmul(a, b.t().contiguous(), *rest, transpose_b=True, narrow=narrow, activation=(("relu", ()),))
    torch.testing.assert_close(got.double(), want.relu(), rtol=2**-7, atol=1e-2)


def test_packed_right_side() -> None:
    a, b = torch.randn(5, 64).bfloat16(), torch.randn(64, 96)
    image = pack_tiles(b, DataType.BFLOAT8_B)
    values = unpack_tiles(image, b.shape, DataType.BFLOAT8_B)
    packed = Packed((64, 96), FORMATS[DataType.BFLOAT8_B], 1024, 7, lambda: image, lambda: values)
    torch.testing.assert_close(matmul(a, packed, narrow=True).double(), a.double() @ values.double(), rtol=2**-7, atol=1e-2)
    torch.testing.assert_close(matmul(a.float(), packed), a.float() @ values.float())
    assert native.matmul(a[:, :63], packed) is NotImplemented
    assert native.matmul(a, packed, transpose_b=True) is NotImplemented


def test_what_is_torchs() -> None:
    a, b = torch.randn(300, 300).bfloat16(), torch.randn(300, 300).bfloat16()
    assert (native.matmul(a, b, narrow=True) is NotImplemented) is not native.has_dots()
    assert native.matmul(a.float(), b) is NotImplemented
    assert native.matmul(a, b, transpose_a=True) is NotImplemented
    assert native.matmul(a, b.expand(2, 300, 300)) is NotImplemented
