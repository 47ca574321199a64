"""Softmax and its masked forms, layer, RMS, group and batch norms, losses, and the helpers that prepare them, against fp64 torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.engine.elementwise_references import ulp_errors

import ttnn

SHAPES = [(50,), (1, 1), (33, 65), (3, 31, 33), (2, 3, 33, 65), (2, 2, 3, 5, 7)]


def put(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT, **options: Any) -> Any:
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device, **options)


def some(shape: tuple[int, ...], seed: int = 3) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def close(found: Any, exact: torch.Tensor) -> None:
    """Within one place of bfloat16, or as close to zero as fp32 sums are."""
    values = ttnn.to_torch(found)
    assert values.shape == exact.shape
    near = (values.double() - exact).abs() <= 1e-5 * max(1.0, float(exact.abs().max()))
    assert bool((near | (ulp_errors(values, exact) <= 1.0)).all())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax_along_any_dimension(device: Any, shape: tuple[int, ...]) -> None:
    values = some(shape) * 4
    for dim in range(-len(shape), len(shape)):
        close(ttnn.softmax(put(values, device), dim), torch.softmax(values.double(), dim))


def test_softmax_of_rows_answers_tiles(device: Any) -> None:
    values = some((2, 40))
    found = ttnn.softmax(put(values, device, layout=ttnn.ROW_MAJOR_LAYOUT))
    assert found.layout == ttnn.TILE_LAYOUT
    close(found, torch.softmax(values.double(), -1))


def test_softmax_in_place(device: Any) -> None:
    values = some((1, 2, 33, 65))
    tensor = put(values, device)
    assert ttnn.softmax_in_place(tensor) is tensor
    close(tensor, torch.softmax(values.double(), -1))
    with pytest.raises(RuntimeError, match="Invalid dimension"):
        ttnn.softmax_in_place(put(some((33, 65)), device))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("scale", [None, 0.25], ids=str)
def test_masked_softmax(device: Any, scale: float | None, in_place: bool) -> None:
    values, mask = some((2, 4, 64, 96)), some((2, 1, 1, 96), 4) * 3
    tensor = put(values, device)
    name = "scale_mask_softmax_in_place" if in_place else "scale_mask_softmax"
    found = getattr(ttnn, name)(tensor, scale, put(mask, device))
    assert (found is tensor) is in_place
    close(found, torch.softmax(values.double() * (scale or 1.0) + mask.double(), -1))


def test_causal_mask(device: Any) -> None:
    values = some((1, 2, 64, 64))
    mask = torch.full((1, 1, 64, 64), float("-inf")).triu(1)
    found = ttnn.scale_mask_softmax_in_place(put(values, device), 0.5, put(mask, device), is_causal_mask=True)
    close(found, torch.softmax(values.double() * 0.5 + mask.double(), -1))


def test_masks_are_checked(device: Any) -> None:
    tensor = put(some((2, 1, 64, 96)), device)
    with pytest.raises(RuntimeError, match="Scale value must not be set"):
        ttnn.scale_mask_softmax(tensor, 0.5)
    with pytest.raises(RuntimeError, match="batch sizes must match"):
        ttnn.scale_mask_softmax(tensor, None, put(some((1, 1, 1, 96)), device))
    with pytest.raises(RuntimeError, match="not supported in default program config"):
        ttnn.scale_causal_mask_hw_dims_softmax_in_place(tensor, None, put(some((2, 1, 64, 96)), device))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_rows_are_normalised(device: Any, name: str, shape: tuple[int, ...]) -> None:
    values, residual = some(shape), some(shape, 4)
    weight, bias = some(shape[-1:], 5), some(shape[-1:], 6)
    x = values.double() + residual.double()
    if name == "layer_norm":
        exact = torch.nn.functional.layer_norm(x, shape[-1:], weight.double(), bias.double(), 1e-3)
    else:
        exact = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-3) * weight.double() + bias.double()
    found = getattr(ttnn, name)(
        put(values, device),
        epsilon=1e-3,
        weight=put(weight, device),
        bias=put(bias, device),
        residual_input_tensor=put(residual, device),
    )
    close(found, exact)


def test_weights_in_rows_of_32(device: Any) -> None:
    values, weight = some((1, 1, 64, 96)), some((96,), 5)
    rows = put(weight.reshape(1, 1, 3, 32), device, layout=ttnn.ROW_MAJOR_LAYOUT)
    close(
        ttnn.layer_norm(put(values, device), weight=rows),
        torch.nn.functional.layer_norm(values.double(), (96,), weight.double(), None, 1e-12),
    )


def block_sharded(x: int, y: int, shape: list[int]) -> Any:
    grid = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(x - 1, y - 1))})
    shard = ttnn.ShardSpec(grid, shape, ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, shard)


def norm_config(size: tuple[int, int], block_w: int, inplace: bool = False) -> Any:
    return ttnn.LayerNormShardedMultiCoreProgramConfig(
        compute_with_storage_grid_size=size, subblock_w=1, block_h=1, block_w=block_w, inplace=inplace
    )


def test_program_configs_of_sharded_norms(device: Any) -> None:
    values, config = some((1, 1, 128, 256)), block_sharded(4, 4, [32, 64])
    tensor = put(values, device, memory_config=config)
    close(
        ttnn.layer_norm(tensor, program_config=norm_config((4, 4), 2)), torch.nn.functional.layer_norm(values.double(), (256,), eps=1e-12)
    )
    with pytest.raises(RuntimeError, match="does not fit within program_config grid"):
        ttnn.layer_norm(tensor, program_config=norm_config((2, 2), 2))
    with pytest.raises(RuntimeError, match="block_w"):
        ttnn.rms_norm(tensor, program_config=norm_config((4, 4), 1))
    assert ttnn.layer_norm(tensor, program_config=norm_config((4, 4), 2, inplace=True)) is tensor


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_rows_held_by_two_chips(device: Any, name: str) -> None:
    values = some((1, 1, 33, 128))
    halves = [put(h.contiguous(), device) for h in values.split(64, -1)]
    sums = [getattr(ttnn, f"{name}_pre_all_gather")(h, dtype=ttnn.float32) for h in halves]
    gathered = put(torch.cat([ttnn.to_torch(s) for s in sums], -1), device, ttnn.float32)
    config = ttnn.WormholeComputeKernelConfig(fp32_dest_acc_en=True)
    after = getattr(ttnn, f"{name}_post_all_gather")
    found = [ttnn.to_torch(after(h, gathered, epsilon=1e-3, compute_kernel_config=config)) for h in halves]
    whole = ttnn.to_torch(getattr(ttnn, name)(put(values, device), epsilon=1e-3))
    assert torch.allclose(torch.cat(found, -1).float(), whole.float(), rtol=0.01, atol=1e-3)


# -- channels and batches


@pytest.mark.parametrize(("channels", "groups"), [(64, 2), (96, 3), (320, 32)])
def test_group_norm(device: Any, channels: int, groups: int) -> None:
    values, weight, bias = some((2, 1, 64, channels)), some((channels,), 5), some((channels,), 6)
    rows = [put(ttnn.create_group_norm_weight_bias_rm(v, channels, 1), device, layout=ttnn.ROW_MAJOR_LAYOUT) for v in (weight, bias)]
    mask = ttnn.to_device(ttnn.create_group_norm_input_mask(channels, groups, 1, ttnn.bfloat8_b), device)
    found = ttnn.group_norm(
        put(values, device),
        num_groups=groups,
        epsilon=1e-3,
        input_mask=mask,
        weight=rows[0],
        bias=rows[1],
        core_grid=ttnn.CoreGrid(y=1, x=1),
        inplace=False,
    )
    first = values.double().movedim(-1, 1)
    close(found, torch.nn.functional.group_norm(first, groups, weight.double(), bias.double(), 1e-3).movedim(1, -1))


def test_group_norm_of_shards_with_padded_weights(device: Any) -> None:
    values, weight = some((1, 1, 256, 160)), some((160,), 5)
    tensor = put(values, device, layout=ttnn.ROW_MAJOR_LAYOUT, memory_config=block_sharded(4, 1, [256, 40]))
    rows = put(ttnn.create_group_norm_weight_bias_rm(weight, 160, 4), device, layout=ttnn.ROW_MAJOR_LAYOUT)
    assert tuple(rows.shape) == (1, 1, 8, 32)
    found = ttnn.group_norm(tensor, num_groups=16, epsilon=1e-3, weight=rows)
    assert found is tensor
    first = values.double().movedim(-1, 1)
    close(found, torch.nn.functional.group_norm(first, 16, weight.double(), None, 1e-3).movedim(1, -1))


def test_group_norm_helpers(device: Any) -> None:
    mask = ttnn.to_torch(ttnn.create_group_norm_input_mask(320, 32, 1))
    assert tuple(mask.shape) == (1, 32, 32, 64)
    assert torch.equal(mask.sum((0, 2, 3)), torch.full((32,), 320.0).bfloat16())
    negative = ttnn.to_torch(ttnn.create_group_norm_input_negative_mask(320, 32, 1))
    assert torch.equal(mask + negative, torch.ones_like(mask))
    for high in (True, False):
        config, grid = ttnn.determine_expected_group_norm_sharded_config_and_grid_size(
            device=device, num_channels=256, num_groups=8, input_nhw=1024, is_height_sharded=high
        )
        assert config.is_sharded()
        assert config.shard_spec.num_cores() * config.shard_spec.shape[0] * config.shard_spec.shape[1] == 1024 * 256
        assert grid.x * grid.y >= config.shard_spec.num_cores()
    grid = ttnn.determine_expected_group_norm_dram_grid_size(device=device, num_channels=256, num_groups=8, input_nhw=1024)
    values = put(some((1, 1, 1024, 256)), device)
    assert ttnn.group_norm(values, num_groups=8, core_grid=grid, inplace=False).shape == values.shape
    params, mask = ttnn.dram_group_norm_params_from_torch(torch.ones(256), 256, 8, device, core_grid=grid)
    assert ttnn.group_norm(values, num_groups=8, core_grid=grid, inplace=False, weight=params, input_mask=mask).shape == values.shape
    reciprocals = ttnn.create_layer_norm_reciprocals(
        device, ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(1, 0))}), 64
    )
    assert torch.equal(ttnn.to_torch(reciprocals)[1], (1.0 / torch.arange(1, 65, dtype=torch.float64)).float())


def test_batch_norm(device: Any) -> None:
    values = some((4, 3, 33, 5))
    stats = [some((3,), 5).float(), some((3,), 6).float().abs() + 0.5]
    tensors = [put(s.reshape(1, 3, 1, 1), device, ttnn.float32) for s in stats]
    found = ttnn.batch_norm(put(values, device), running_mean=tensors[0], running_var=tensors[1], eps=1e-3)
    close(found, torch.nn.functional.batch_norm(values.double(), stats[0].double(), stats[1].double(), eps=1e-3))
    trained = ttnn.batch_norm(put(values, device), running_mean=tensors[0], running_var=tensors[1], training=True, eps=1e-3, momentum=0.2)
    running = [s.double() for s in stats]
    close(trained, torch.nn.functional.batch_norm(values.double(), running[0], running[1], training=True, eps=1e-3, momentum=0.2))
    for tensor, moved in zip(tensors, running):
        assert torch.allclose(ttnn.to_torch(tensor).double().reshape(-1), moved, rtol=1e-5, atol=1e-6)


def test_pictures(device: Any) -> None:
    values = some((2, 3, 33, 65))
    wide = values.double()
    var, mean = torch.var_mean(wide, (2, 3), correction=0, keepdim=True)
    close(ttnn.normalize_hw(put(values, device)), (wide - mean) / var.sqrt())
    whole = ttnn.normalize_global(put(values, device))
    assert tuple(whole.shape) == (2, 3, 64, 96)
    var, mean = torch.var_mean(wide, correction=0)
    inner = ttnn.to_torch(whole)[:, :, :33, :65]
    assert float(ulp_errors(inner, (wide - mean) / var.sqrt()).max()) <= 1.0


@pytest.mark.parametrize("reduction", ["NONE", "SUM", "MEAN"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss"])
def test_losses(device: Any, name: str, reduction: str) -> None:
    a, b = some((2, 33, 65)), some((2, 33, 65), 4)
    found = getattr(ttnn, name)(
        put(a, device, ttnn.float32), put(b, device, ttnn.float32), reduction=getattr(ttnn.LossReductionMode, reduction)
    )
    exact = getattr(torch.nn.functional, name)(b.double(), a.double(), reduction=reduction.lower())
    assert torch.allclose(ttnn.to_torch(found).double(), exact, rtol=1e-4, atol=1e-6)


def test_rows_held_by_a_line_of_chips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_BOARD", "n300")
    ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
    try:
        mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))
        values, residual, weight = some((1, 1, 32, 512)), some((1, 1, 32, 512), 4), some((512,), 5)
        grid = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(3, 0))})
        shard = ttnn.ShardSpec(grid, [32, 64], ttnn.ShardOrientation.ROW_MAJOR)
        config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.BufferType.L1, shard)
        spread = {"device": mesh, "mesh_mapper": ttnn.ShardTensorToMesh(mesh, dim=-1)}
        tensors = [ttnn.from_torch(v, ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, memory_config=config, **spread) for v in (values, residual)]
        rows = weight.reshape(2, 1, 8, 32)
        weights = ttnn.from_torch(rows, ttnn.bfloat16, device=mesh, mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim=0))
        found = ttnn.fused_rms_minimal(
            tensors[0],
            ttnn.LayerNormShardedMultiCoreProgramConfig(
                compute_with_storage_grid_size=(4, 1), subblock_w=1, block_h=1, block_w=2, inplace=False
            ),
            1,
            mesh,
            ttnn.create_global_semaphore(mesh, grid, 0),
            residual_input_tensor=tensors[1],
            weight=weights,
            epsilon=1e-3,
        )
        x = values.double() + residual.double()
        exact = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-3) * weight.double()
        joined = ttnn.to_torch(found, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=-1))
        assert float(ulp_errors(joined, exact).max()) <= 1.0
        kept = ttnn.to_torch(tensors[1], mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=-1))
        assert torch.equal(kept, x.bfloat16())
        ttnn.close_mesh_device(mesh)
    finally:
        ttnn.set_fabric_config(ttnn.FabricConfig.DISABLED)


def test_blocks_that_do_not_fit_are_refused(device: Any) -> None:
    """A shard of two thirds of L1 leaves no room for the two blocks that a sharded norm needs beside it."""
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(0, 0))})
    place = ttnn.MemoryConfig(
        ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec(cores, [32, 12288], ttnn.ShardOrientation.ROW_MAJOR)
    )
    x = ttnn.from_torch(torch.zeros(1, 1, 32, 12288), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=place)
    config = ttnn.LayerNormShardedMultiCoreProgramConfig(
        compute_with_storage_grid_size=ttnn.CoreCoord(1, 1), subblock_w=1, block_h=1, block_w=384, inplace=False
    )
    with pytest.raises(RuntimeError, match=r"grow to \d+ B which is beyond max L1 size of \d+ B|region ends at \d+"):
        ttnn.layer_norm(x, program_config=config)
