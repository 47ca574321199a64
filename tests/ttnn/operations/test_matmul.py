"""Products: fp32 sums rounded once on awkward shapes, program configs refused and followed, relatives of the product."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ttnn

SHAPES = [
    ((1, 1), (1, 1)),
    ((31, 33), (33, 65)),
    ((1, 96), (96, 1)),
    ((3, 31, 33), (33, 31)),
    ((2, 3, 33, 65), (2, 3, 65, 17)),
    ((2, 1, 2, 5, 7), (7, 9)),
    ((96,), (96, 33)),
    ((33, 96), (96,)),
    ((96,), (96,)),
    ((0, 32), (32, 64)),
]
BLOCKS = {
    "height": ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
    "width": ttnn.TensorMemoryLayout.WIDTH_SHARDED,
    "block": ttnn.TensorMemoryLayout.BLOCK_SHARDED,
}


def put(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT, **options: Any) -> Any:
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device, **options)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape)))


def close(result: Any, want: torch.Tensor, relative: float = 2**-8) -> None:
    got = ttnn.to_torch(result).double()
    assert got.shape == want.shape
    if want.numel():
        scale = want.abs().max()
        assert float((got - want.double()).abs().max() / scale) <= relative


@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.float32, ttnn.bfloat8_b])
def test_shapes_and_dtypes(device: Any, a: tuple[int, ...], b: tuple[int, ...], dtype: Any) -> None:
    x, y = put(random(*a), device, dtype), put(random(*b), device, dtype)
    want = ttnn.to_torch(x).double() @ ttnn.to_torch(y).double()
    close(ttnn.matmul(x, y), want, {ttnn.float32: 2**-20}.get(dtype, 2**-6 if dtype == ttnn.bfloat8_b else 2**-8))


def test_transposes_bias_and_activation(device: Any) -> None:
    a, b, bias = random(65, 33), random(17, 65), random(17)
    x, y, z = (put(t, device) for t in (a, b, bias))
    wide = [ttnn.to_torch(t).double() for t in (x, y, z)]
    want = torch.nn.functional.gelu(wide[0].T @ wide[1].T + wide[2])
    close(ttnn.linear(x, y, bias=z, transpose_a=True, transpose_b=True, activation="gelu"), want)


def test_columns_of_the_first_operand(device: Any) -> None:
    a, b = put(random(33, 128), device), put(random(64, 17), device)
    close(ttnn.linear(a, b, in0_column_offset=32), ttnn.to_torch(a).double()[:, 32:96] @ ttnn.to_torch(b).double())
    with pytest.raises(RuntimeError, match="in0_column_offset=96"):
        ttnn.linear(a, b, in0_column_offset=96)


def test_output_as_asked(device: Any) -> None:
    a, b = put(random(64, 96), device), put(random(96, 128), device)
    result = ttnn.matmul(a, b, dtype=ttnn.float32, memory_config=ttnn.L1_MEMORY_CONFIG)
    assert result.dtype == ttnn.float32 and result.memory_config() == ttnn.L1_MEMORY_CONFIG
    ready = ttnn.zeros((64, 128), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.matmul(a, b, optional_output_tensor=ready)
    close(ready, ttnn.to_torch(result))


def test_batches_are_not_broadcast(device: Any) -> None:
    with pytest.raises(RuntimeError, match="batch dimension"):
        ttnn.matmul(put(random(3, 32, 32), device), put(random(2, 32, 32), device))
    with pytest.raises(RuntimeError, match="width=33 height=32"):
        ttnn.matmul(put(random(32, 33), device), put(random(32, 32), device))


def multicast(**changes: Any) -> Any:
    words = {
        "compute_with_storage_grid_size": (4, 4),
        "in0_block_w": 2,
        "out_subblock_h": 1,
        "out_subblock_w": 2,
        "per_core_M": 2,
        "per_core_N": 2,
        "transpose_mcast": False,
    }
    return ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(**(words | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"in0_block_w": 3}, r"Kt \(8\) must be divisible by in0_block_w \(3\)"),
        ({"out_subblock_w": 3}, r"out_block_w \(2\) must be divisible by out_subblock_w \(3\)"),
        ({"per_core_N": 1, "out_subblock_w": 1}, "Num output blocks along x"),
        ({"per_core_M": 1}, "Num output blocks along y"),
        ({"compute_with_storage_grid_size": (9, 9)}, "must fit within device grid"),
        ({"per_core_M": 4, "per_core_N": 4, "out_subblock_h": 4, "out_subblock_w": 4}, "needs to be at most 8"),
    ],
)
def test_multicast_configs_are_checked(device: Any, changes: dict[str, Any], words: str) -> None:
    a = put(random(256, 256), device)
    with pytest.raises(RuntimeError, match=words):
        ttnn.matmul(a, a, program_config=multicast(**changes))


def test_configs_place_the_result(device: Any) -> None:
    a, b = put(random(256, 256), device), put(random(256, 256), device)
    asked = ttnn.MemoryConfig(BLOCKS["block"], ttnn.BufferType.L1)
    result = ttnn.matmul(a, b, program_config=multicast(), memory_config=asked)
    assert list(result.memory_config().shard_spec.shape) == [64, 64]
    close(result, ttnn.to_torch(a).double() @ ttnn.to_torch(b).double())
    with pytest.raises(RuntimeError, match="Output memory layout must be BLOCK_SHARDED"):
        ttnn.matmul(a, b, program_config=multicast(), memory_config=ttnn.MemoryConfig(BLOCKS["width"], ttnn.BufferType.L1))


def test_blocks_must_fit_in_l1(device: Any) -> None:
    a = put(torch.zeros(2048, 2048), device, ttnn.float32)
    config = multicast(compute_with_storage_grid_size=(4, 4), in0_block_w=64, per_core_M=16, per_core_N=16, out_subblock_w=1)
    with pytest.raises(RuntimeError, match=r"beyond max L1 size of 1499136 B"):
        ttnn.matmul(a, a, program_config=config)


def test_a_configs_activation_is_applied(device: Any) -> None:
    a, b = put(random(256, 256), device), put(random(256, 256), device)
    result = ttnn.matmul(a, b, program_config=multicast(fused_activation=(ttnn.UnaryOpType.RELU, 0.0)))
    close(result, (ttnn.to_torch(a).double() @ ttnn.to_torch(b).double()).relu())


@pytest.mark.parametrize(
    ("layout", "rows", "inner", "columns", "grid", "shard"),
    [
        ("height", 256, 64, 128, (8, 1), (32, 128)),
        ("width", 32, 512, 512, (8, 1), (32, 64)),
        ("block", 128, 256, 256, (4, 4), (32, 64)),
    ],
)
def test_sharded_operands_keep_their_cores(
    device: Any, layout: str, rows: int, inner: int, columns: int, grid: tuple[int, int], shard: tuple[int, int]
) -> None:
    x, y = grid
    own = {"height": [rows // x, inner], "width": [rows, inner // x], "block": [rows // y, inner // x]}[layout]
    cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(x - 1, y - 1))])
    spec = ttnn.ShardSpec(cores, own, ttnn.ShardOrientation.ROW_MAJOR)
    a = put(random(1, 1, rows, inner), device, memory_config=ttnn.MemoryConfig(BLOCKS[layout], ttnn.BufferType.L1, spec))
    b = put(random(inner, columns), device)
    result = ttnn.matmul(a, b, memory_config=ttnn.MemoryConfig(BLOCKS[layout], ttnn.BufferType.L1))
    assert tuple(result.memory_config().shard_spec.shape) == shard
    close(result, ttnn.to_torch(a).double() @ ttnn.to_torch(b).double())


def test_dram_sharded_weights(device: Any) -> None:
    def cores(count: int) -> Any:
        return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(count - 1, 0))])

    def config(buffer: Any, count: int, shape: list[int]) -> Any:
        return ttnn.MemoryConfig(BLOCKS["width"], buffer, ttnn.ShardSpec(cores(count), shape, ttnn.ShardOrientation.ROW_MAJOR))

    a = put(random(1, 1, 32, 512), device, memory_config=config(ttnn.BufferType.L1, 8, [32, 64]))
    b = put(random(512, 768), device, memory_config=config(ttnn.BufferType.DRAM, 12, [512, 64]))
    words = ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(in0_block_w=2, per_core_M=1, per_core_N=2)
    result = ttnn.linear(a, b, program_config=words, memory_config=ttnn.MemoryConfig(BLOCKS["width"], ttnn.BufferType.L1))
    assert result.memory_config().shard_spec.num_cores() == 12
    close(result, ttnn.to_torch(a).double() @ ttnn.to_torch(b).double())
    with pytest.raises(RuntimeError, match="Input B must be WIDTH_SHARDED in DRAM"):
        ttnn.linear(a, put(random(512, 768), device), program_config=words, memory_config=result.memory_config())


@pytest.mark.parametrize(("a", "b"), [((33,), (65,)), ((2, 3, 33, 5), (33, 7)), ((1, 1, 31, 9), (1, 1, 1, 33)), ((2, 1, 4, 3), (3, 4, 5))])
@pytest.mark.parametrize("layout", [ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT])
def test_outer(device: Any, a: tuple[int, ...], b: tuple[int, ...], layout: Any) -> None:
    x, y = put(random(*a), device, layout=layout), put(random(*b), device, layout=layout)
    want = ttnn.to_torch(x).unsqueeze(-1) * ttnn.to_torch(y).unsqueeze(-2)
    assert torch.equal(ttnn.to_torch(ttnn.outer(x, y)), want)


def test_addmm(device: Any) -> None:
    term, a, b = (put(random(*s), device) for s in ((33, 17), (33, 65), (65, 17)))
    wide = [ttnn.to_torch(t).double() for t in (term, a, b)]
    close(ttnn.addmm(term, a, b, alpha=0.5, beta=2.0), torch.addmm(*wide, alpha=0.5, beta=2.0))
    close(ttnn.addmm(term, a, b, beta=0.0), wide[1] @ wide[2])
    with pytest.raises(RuntimeError, match="input_tensor must have shape matching"):
        ttnn.addmm(put(random(1, 17), device), a, b)


def test_sparse_products_skip_experts(device: Any) -> None:
    a, b = put(random(2, 3, 32, 64), device), put(random(1, 4, 64, 96), device)
    chosen = (torch.arange(24).reshape(2, 3, 1, 4) % 3 == 0).float()
    sparsity = put(chosen, device, layout=ttnn.ROW_MAJOR_LAYOUT)
    config = ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(
        compute_with_storage_grid_size=(3, 1),
        in0_block_w=1,
        out_subblock_h=1,
        out_subblock_w=1,
        per_core_M=1,
        per_core_N=1,
        fuse_batch=False,
        mcast_in0=True,
    )
    result = ttnn.sparse_matmul(a, b, sparsity=sparsity, program_config=config)
    x, y = ttnn.to_torch(a).double(), ttnn.to_torch(b).double()
    want = torch.einsum("abmk,ekn->abemn", x, y[0]) * chosen.reshape(2, 3, 4, 1, 1)
    close(result, want.unsqueeze(2))


def test_minimal_matmul(device: Any) -> None:
    a, b, bias = (put(random(*s), device) for s in ((2, 33, 65), (65, 192), (1, 192)))
    want = ttnn.to_torch(a).double() @ ttnn.to_torch(b).double() + ttnn.to_torch(bias).double()
    close(ttnn.experimental.minimal_matmul(a, b, bias_tensor=bias), want)
    parts = ttnn.experimental.minimal_matmul_split(a, b, chunks=3, bias_tensor=bias)
    for part, wanted in zip(parts, want.chunk(3, dim=-1)):
        close(part, wanted)
    with pytest.raises(RuntimeError, match="beyond max L1 size"):
        ttnn.experimental.minimal_matmul(put(random(32, 32), device, ttnn.float32), put(random(32, 32), device, ttnn.float32))


def test_every_user_has_its_own_matrix(device: Any) -> None:
    a, b = put(random(1, 8, 32, 64), device), put(random(32, 2, 64, 96), device)
    x, y = ttnn.to_torch(a).double(), ttnn.to_torch(b).double()
    want = torch.einsum("hguk,ugkn->hgun", x[0].reshape(2, 4, 32, 64).transpose(0, 1), y).transpose(0, 1).reshape(1, 8, 32, 96)
    close(ttnn.experimental.group_attn_matmul(a, b, compute_with_storage_grid_size=ttnn.CoreCoord(8, 8)), want)
    single = put(random(32, 1, 96, 64), device)
    turned = ttnn.experimental.attn_matmul_from_cache(
        a, single, num_tokens=40, transpose_hw=True, compute_with_storage_grid_size=ttnn.CoreCoord(8, 8)
    )
    z = ttnn.to_torch(single).double()[:, 0, :64]
    close(turned, torch.einsum("huk,utk->hut", x[0], z).unsqueeze(0))


@pytest.mark.parametrize("name", ["matmul", "linear", "outer", "addmm"])
def test_golden_functions(name: str) -> None:
    golden = ttnn.get_golden_function(getattr(ttnn, name))
    a, b = random(5, 7), random(7, 3)
    if name == "outer":
        assert golden(random(4), random(6)).shape == (4, 6)
    elif name == "addmm":
        assert torch.allclose(golden(random(5, 3), a, b), random(5, 3) + a @ b)
    else:
        assert torch.allclose(golden(a, b), a @ b)
