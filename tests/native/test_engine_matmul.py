"""Products against double precision: awkward sizes, packed right sides, every instruction set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tessera.formats.dtype import DataType
from tessera.formats.packing import pack_tiles, unpack_tiles

native = pytest.importorskip("tessera._native")

BF16 = torch.bfloat16
SIZES = [
    (1, 1, 1),
    (3, 5, 7),
    (32, 32, 32),
    (33, 31, 65),
    (7, 64, 128),
    (64, 200, 100),
    (13, 129, 130),
    (5, 300, 70),
    (1, 64, 96),
    (2, 1100, 64),
]


@pytest.fixture(params=native.runnable_isas())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    before = native.isa()
    native.set_isa(request.param)
    yield request.param
    native.set_isa(before)


def product(
    a: torch.Tensor,
    b: torch.Tensor,
    n: int,
    *,
    bits: int = 0,
    transposed: bool = False,
    bias: torch.Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    m, k = a.shape
    out = torch.empty(m, n, dtype=dtype)
    address = 0 if bias is None else bias.data_ptr()
    native.matmul(a.data_ptr(), b.data_ptr(), bits, transposed, address, out.data_ptr(), dtype is torch.float32, m, k, n, 2)
    return out


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_bfloat16(m: int, k: int, n: int, isa: str) -> None:
    torch.manual_seed(m * k * n)
    a, b, bias = torch.randn(m, k).bfloat16(), torch.randn(k, n).bfloat16(), torch.randn(n).bfloat16()
    want = a.double() @ b.double()
    torch.testing.assert_close(product(a, b, n).double(), want, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(product(a, b, n, bias=bias).double(), want + bias.double(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(product(a, b.t().contiguous(), n, transposed=True).double(), want, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(product(a, b, n, dtype=BF16).double(), want, rtol=2**-7, atol=1e-3)


@pytest.mark.parametrize(("m", "k", "n"), [s for s in SIZES if s[1] % 2 == 0])
@pytest.mark.parametrize(("dtype", "bits"), [(DataType.BFLOAT8_B, 7), (DataType.BFLOAT4_B, 3)])
def test_tiles_in_place(m: int, k: int, n: int, dtype: DataType, bits: int, isa: str) -> None:
    torch.manual_seed(m * k * n)
    a, b = torch.randn(m, k).bfloat16(), torch.randn(k, n).bfloat16()
    image = pack_tiles(b, dtype)
    want = a.double() @ unpack_tiles(image, b.shape, dtype).double()
    torch.testing.assert_close(product(a, image, n, bits=bits).double(), want, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(product(a, image, n, bits=bits, dtype=BF16).double(), want, rtol=2**-7, atol=1e-3)


def test_wide_ranges_of_exponents() -> None:
    b = torch.randn(64, 64) * 2.0 ** torch.randint(-60, 60, (64, 1))
    for dtype, bits in ((DataType.BFLOAT8_B, 7), (DataType.BFLOAT4_B, 3)):
        image = pack_tiles(b, dtype)
        values = unpack_tiles(image, b.shape, dtype)
        assert torch.equal(product(torch.eye(64).bfloat16(), image, 64, bits=bits, dtype=BF16), values)
        assert torch.equal(product(torch.eye(64).bfloat16()[5:6], image, 64, bits=bits, dtype=BF16), values[5:6])


def test_wrong_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="bits"):
        native.matmul(0, 0, 5, False, 0, 0, False, 1, 1, 1, 1)
