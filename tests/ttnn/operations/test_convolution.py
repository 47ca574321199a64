"""Convolutions and poolings against torch in fp64, over NHWC images as the chip holds them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import ttnn


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def as_rows(images):
    n, c, h, w = images.shape
    return images.permute(0, 2, 3, 1).reshape(1, 1, n * h * w, c)


def close(got, want, ulps=1):
    """Within so many units in the last place of bfloat16 of the exact result."""
    back = ttnn.to_torch(got).double()
    spacing = torch.exp2(torch.floor(torch.log2(want.abs().clamp_min(2.0**-126))) - 7)
    assert tuple(back.shape) == tuple(want.shape)
    assert ((back - want).abs() <= ulps * spacing + 1e-6).all()


CASES = [
    # (batch, in, out, height, width, kernel, stride, padding, dilation, groups)
    (1, 3, 8, 9, 11, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 16, 32, 8, 8, (3, 3), (2, 2), (1, 1), (1, 1), 1),
    (1, 32, 16, 7, 5, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (1, 8, 8, 10, 10, (3, 3), (1, 1), (2, 2), (2, 2), 8),
    (2, 12, 24, 6, 9, (2, 3), (1, 2), (0, 1), (1, 1), 4),
    (1, 4, 6, 8, 8, (3, 3), (1, 1), (0, 1, 2, 0), (1, 1), 1),
]


@pytest.mark.parametrize("layout", [ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT])
@pytest.mark.parametrize("case", CASES)
def test_conv2d(device, case, layout):
    batch, ins, outs, height, width, kernel, stride, padding, dilation, groups = case
    x, weight, bias = numbers(batch, ins, height, width), numbers(outs, ins // groups, *kernel, seed=1), numbers(outs, seed=2)
    edges = padding if len(padding) == 4 else (padding[0], padding[0], padding[1], padding[1])
    padded = F.pad(x.double(), (edges[2], edges[3], edges[0], edges[1]))
    want = F.conv2d(padded, weight.double(), bias.double(), stride, 0, dilation, groups)
    words = {
        "device": device, "in_channels": ins, "out_channels": outs, "batch_size": batch, "input_height": height, "input_width": width,
        "kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
    }  # fmt: skip
    got, size, (prepared, prepared_bias) = ttnn.conv2d(
        input_tensor=ttnn.from_torch(as_rows(x), dtype=ttnn.bfloat16, layout=layout, device=device),
        weight_tensor=ttnn.from_torch(weight, dtype=ttnn.bfloat16),
        bias_tensor=ttnn.from_torch(bias.reshape(1, 1, 1, -1), dtype=ttnn.bfloat16),
        return_output_dim=True,
        return_weights_and_bias=True,
        **words,
    )
    assert tuple(size) == tuple(want.shape[2:])
    close(got, as_rows(want))
    again = ttnn.conv2d(
        input_tensor=ttnn.from_torch(x.permute(0, 2, 3, 1), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device),
        weight_tensor=prepared,
        bias_tensor=prepared_bias,
        **words,
    )
    assert torch.equal(ttnn.to_torch(again), ttnn.to_torch(got))


def test_a_fused_activation_is_one_rounding(device):
    x, weight = numbers(1, 8, 6, 6), numbers(8, 8, 3, 3, seed=1)
    want = F.relu(F.conv2d(x.double(), weight.double()))
    got = ttnn.conv2d(
        input_tensor=ttnn.from_torch(as_rows(x), dtype=ttnn.bfloat16, device=device), weight_tensor=ttnn.from_torch(weight, dtype=ttnn.bfloat16),
        device=device, in_channels=8, out_channels=8, batch_size=1, input_height=6, input_width=6, kernel_size=(3, 3),
        conv_config=ttnn.Conv2dConfig(activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)),
    )  # fmt: skip
    close(got, as_rows(want))


def test_transposed_and_one_dimensional(device):
    x, weight = numbers(1, 4, 5, 6), numbers(4, 6, 3, 3, seed=1)
    want = F.conv_transpose2d(x.double(), weight.double(), stride=2, padding=1, output_padding=1)
    got = ttnn.conv_transpose2d(
        input_tensor=ttnn.from_torch(as_rows(x), dtype=ttnn.bfloat16, device=device), weight_tensor=ttnn.from_torch(weight, dtype=ttnn.bfloat16),
        device=device, in_channels=4, out_channels=6, batch_size=1, input_height=5, input_width=6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1),
        output_padding=(1, 1),
    )  # fmt: skip
    close(got, as_rows(want))
    y, taps = numbers(2, 4, 16), numbers(8, 4, 5, seed=3)
    line = F.conv1d(y.double(), taps.double(), padding=2, stride=2)
    found = ttnn.conv1d(
        input_tensor=ttnn.from_torch(y.transpose(1, 2).contiguous(), dtype=ttnn.bfloat16, device=device),
        weight_tensor=ttnn.from_torch(taps, dtype=ttnn.bfloat16), device=device, in_channels=4, out_channels=8, batch_size=2, input_length=16,
        kernel_size=5, stride=2, padding=2,
    )  # fmt: skip
    close(found, line.transpose(1, 2).reshape(1, 1, -1, 8))


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "ceil"),
    [((3, 3), (2, 2), (1, 1), False), ((2, 2), (2, 2), (0, 0), True), ((3, 2), (1, 2), (1, 0), True)],
)
@pytest.mark.parametrize("channels", [3, 32])
def test_pools(device, kernel, stride, padding, ceil, channels):
    x = numbers(2, channels, 9, 7)
    rows = ttnn.from_torch(as_rows(x), dtype=ttnn.bfloat16, device=device)
    shape = (rows, 2, 9, 7, channels, kernel, stride, padding)
    largest, where = F.max_pool2d(x.float(), kernel, stride, padding, ceil_mode=ceil, return_indices=True)
    got, indices = ttnn.max_pool2d(*shape, (1, 1), ceil, return_indices=True)
    assert torch.equal(ttnn.to_torch(got).float(), as_rows(largest))
    assert torch.equal(ttnn.to_torch(indices).to(torch.int64), as_rows(where))
    for counted in (True, False):
        want = F.avg_pool2d(x.double(), kernel, stride, padding, ceil_mode=ceil, count_include_pad=counted)
        close(ttnn.avg_pool2d(*shape, ceil, counted), as_rows(want))
    close(
        ttnn.avg_pool2d(*shape, ceil, divisor_override=5),
        as_rows(F.avg_pool2d(x.double(), kernel, stride, padding, ceil, divisor_override=5)),
    )
    close(ttnn.adaptive_avg_pool2d(rows, 2, 9, 7, channels, (1, 1)), as_rows(x.double().mean((2, 3), keepdim=True)))


def test_a_window_that_does_not_fit_is_refused(device):
    rows = ttnn.from_torch(torch.zeros(1, 1, 64, 16), dtype=ttnn.bfloat16, device=device)
    with pytest.raises(RuntimeError, match="does not fit"):
        ttnn.max_pool2d(rows, 1, 8, 8, 16, (9, 9), (1, 1), (0, 0), (1, 1))
    with pytest.raises(RuntimeError, match="half of kernel size"):
        ttnn.max_pool2d(rows, 1, 8, 8, 16, (2, 2), (1, 1), (2, 2), (1, 1))


def test_resampling(device):
    x = numbers(2, 32, 4, 6)
    images = ttnn.from_torch(x.permute(0, 2, 3, 1), dtype=ttnn.bfloat16, device=device)
    nearest = F.interpolate(x.float(), scale_factor=(2, 3)).permute(0, 2, 3, 1)
    assert torch.equal(ttnn.to_torch(ttnn.upsample(images, (2, 3))).float(), nearest)
    smooth = F.interpolate(x.double(), scale_factor=(2.0, 2.0), mode="bilinear").permute(0, 2, 3, 1)
    close(ttnn.upsample(images, 2, mode="bilinear"), smooth)
    grid = torch.rand(2, 3, 5, 2, generator=torch.Generator().manual_seed(4)) * 2.4 - 1.2
    places = ttnn.from_torch(grid, dtype=ttnn.float32, device=device)
    want = F.grid_sample(x.double(), grid.double(), align_corners=False).permute(0, 2, 3, 1)
    back = ttnn.to_torch(ttnn.grid_sample(images, places)).double()
    assert (back - want).abs().max() < 0.02
    folded = ttnn.to_torch(ttnn.fold(images, 2, 3))
    assert torch.equal(folded, x.permute(0, 2, 3, 1).reshape(2, 2, 2, 2, 3, 32).permute(0, 1, 3, 2, 4, 5).reshape(2, 2, 2, 192))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("mirror", [True, False])
def test_transposed_weights_prepared_ahead(device, groups, mirror):
    x, weight, bias = numbers(1, 4, 5, 6), numbers(4, 6 // groups, 3, 3, seed=1), numbers(6, seed=2)
    kernel = weight if mirror else weight.flip(-1, -2)
    want = F.conv_transpose2d(x.double(), kernel.double(), bias.double(), stride=2, padding=1, groups=groups)
    words = {
        "device": device, "in_channels": 4, "out_channels": 6, "batch_size": 1, "input_height": 5, "input_width": 6, "kernel_size": (3, 3),
        "stride": (2, 2), "padding": (1, 1), "groups": groups,
    }  # fmt: skip
    given = ttnn.from_torch(weight, dtype=ttnn.bfloat16)
    ahead = ttnn.prepare_conv_transpose2d_weights(weight_tensor=given, weights_format="IOHW", mirror_kernel=mirror, **words)
    row = ttnn.prepare_conv_transpose2d_bias(bias_tensor=ttnn.from_torch(bias.reshape(1, 1, 1, -1), dtype=ttnn.bfloat16), **words)
    assert list(ahead.shape) == [1, 1, 9 * 4, 6]
    images = ttnn.from_torch(as_rows(x), dtype=ttnn.bfloat16, device=device)
    got, (kept, _) = ttnn.conv_transpose2d(
        input_tensor=images, weight_tensor=ahead, bias_tensor=row, mirror_kernel=mirror, return_weights_and_bias=True, **words
    )
    assert kept is ahead
    close(got, as_rows(want))
    _, (made, _) = ttnn.conv_transpose2d(
        input_tensor=images, weight_tensor=given, bias_tensor=row, mirror_kernel=mirror, return_weights_and_bias=True, **words
    )
    assert torch.equal(ttnn.to_torch(made), ttnn.to_torch(ahead))


def test_weights_prepared_ahead_are_those_of_the_call(device):
    x, weight = numbers(1, 8, 6, 6), numbers(16, 4, 3, 3, seed=1)
    words = {
        "device": device, "in_channels": 8, "out_channels": 16, "batch_size": 1, "input_height": 6, "input_width": 6, "kernel_size": (3, 3),
        "groups": 2,
    }  # fmt: skip
    given = ttnn.from_torch(weight, dtype=ttnn.bfloat16)
    images = ttnn.from_torch(as_rows(x), dtype=ttnn.bfloat16, device=device)
    ahead = ttnn.prepare_conv_weights(weight_tensor=given, weights_format="OIHW", **words)
    got, (made, _) = ttnn.conv2d(input_tensor=images, weight_tensor=given, return_weights_and_bias=True, **words)
    assert torch.equal(ttnn.to_torch(made), ttnn.to_torch(ahead))
    assert torch.equal(ttnn.to_torch(ttnn.conv2d(input_tensor=images, weight_tensor=ahead, **words)), ttnn.to_torch(got))
    with pytest.raises(RuntimeError, match="weights_format"):
        ttnn.prepare_conv_weights(weight_tensor=given, weights_format="HWIO", **words)


def test_prepared_weights_follow_their_buffer(device):
    """The kernel that is kept beside prepared weights is made again when other values are written to them."""
    x, weight = numbers(1, 4, 6, 6), numbers(4, 4, 3, 3, seed=1)
    words = {
        "device": device, "in_channels": 4, "out_channels": 4, "batch_size": 1, "input_height": 6, "input_width": 6, "kernel_size": (3, 3),
    }  # fmt: skip
    images = ttnn.from_torch(as_rows(x), dtype=ttnn.bfloat16, device=device)
    ahead = ttnn.prepare_conv_weights(weight_tensor=ttnn.from_torch(weight, dtype=ttnn.bfloat16), **words)
    once = ttnn.to_torch(ttnn.conv2d(input_tensor=images, weight_tensor=ahead, **words))
    ttnn.multiply(ahead, 2.0, output_tensor=ahead)
    assert torch.equal(ttnn.to_torch(ttnn.conv2d(input_tensor=images, weight_tensor=ahead, **words)), once * 2)


def test_groups_that_do_not_divide_and_channels_that_are_missing(device):
    """Filters of the k-th share see the k-th stretch of channels; what a kernel does not have counts as zero."""
    x, weight = numbers(1, 16, 6, 6), numbers(32, 5, 3, 3, seed=1)
    whole = torch.zeros(32, 16, 3, 3, dtype=torch.double)
    for filter_ in range(32):
        first = filter_ // 10 * 5
        seen = min(5, 16 - first)
        whole[filter_, first : first + seen] = weight[filter_, :seen].double()
    words = {
        "device": device, "in_channels": 16, "out_channels": 32, "batch_size": 1, "input_height": 6, "input_width": 6, "kernel_size": (3, 3),
    }  # fmt: skip
    images = ttnn.from_torch(as_rows(x), dtype=ttnn.bfloat16, device=device)
    got = ttnn.conv2d(input_tensor=images, weight_tensor=ttnn.from_torch(weight, dtype=ttnn.bfloat16), groups=3, **words)
    close(got, as_rows(F.conv2d(x.double(), whole)))
    got = ttnn.conv2d(input_tensor=images, weight_tensor=ttnn.from_torch(weight, dtype=ttnn.bfloat16), **words)
    close(got, as_rows(F.conv2d(x[:, :5].double(), weight.double())))


@pytest.mark.parametrize(
    ("layout", "grid", "shard"),
    [(ttnn.TensorMemoryLayout.BLOCK_SHARDED, (1, 8), [32, 64]), (ttnn.TensorMemoryLayout.HEIGHT_SHARDED, (8, 1), [32, 64])],
)
def test_a_product_stays_in_the_shards_that_were_asked_for(device, layout, grid, shard):
    x, weight = numbers(1, 32, 16, 16), numbers(64, 32, 1, 1, seed=1)
    got = ttnn.conv2d(
        input_tensor=ttnn.from_torch(as_rows(x), dtype=ttnn.bfloat16, device=device), weight_tensor=ttnn.from_torch(weight, dtype=ttnn.bfloat16),
        device=device, in_channels=32, out_channels=64, batch_size=1, input_height=16, input_width=16, kernel_size=(1, 1),
        conv_config=ttnn.Conv2dConfig(shard_layout=layout),
    )  # fmt: skip
    close(got, as_rows(F.conv2d(x.double(), weight.double())))
    place = got.memory_config()
    size = place.shard_spec.grid.bounding_box().grid_size()
    assert (place.memory_layout, (size.x, size.y), list(place.shard_spec.shape)) == (layout, grid, shard)


def test_blocks_that_do_not_fit_are_refused(device):
    words = {
        "weight_tensor": ttnn.from_torch(torch.zeros(512, 512, 3, 3), dtype=ttnn.bfloat16), "device": device, "in_channels": 512,
        "out_channels": 512, "batch_size": 1, "input_height": 64, "input_width": 64, "kernel_size": (3, 3), "padding": (1, 1),
    }  # fmt: skip
    images = ttnn.from_torch(torch.zeros(1, 1, 64 * 64, 512), dtype=ttnn.bfloat16, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
    large = ttnn.Conv2dConfig(act_block_h_override=64, enable_act_double_buffer=True, enable_weights_double_buffer=True)
    with pytest.raises(RuntimeError, match=r"circular buffers .* grow to \d+ B which is beyond max L1 size of \d+ B"):
        ttnn.conv2d(input_tensor=images, conv_config=large, **words)
    with pytest.raises(RuntimeError, match="act_block_h_override=40 must be a multiple of 32"):
        ttnn.conv2d(input_tensor=images, conv_config=ttnn.Conv2dConfig(act_block_h_override=40), **words)


def test_float32_results_are_not_rounded_to_bfloat16(device):
    x, weight = numbers(1, 8, 6, 6), numbers(8, 8, 3, 3, seed=1)
    got = ttnn.conv2d(
        input_tensor=ttnn.from_torch(as_rows(x), dtype=ttnn.bfloat16, device=device), weight_tensor=ttnn.from_torch(weight, dtype=ttnn.bfloat16),
        device=device, in_channels=8, out_channels=8, batch_size=1, input_height=6, input_width=6, kernel_size=(3, 3), dtype=ttnn.float32,
    )  # fmt: skip
    want = as_rows(F.conv2d(x.double(), weight.double()))
    assert (ttnn.to_torch(got).double() - want).abs().max() < 1e-5


@pytest.mark.parametrize("mode", ["zeros", "replicate"])
@pytest.mark.parametrize(("groups", "block"), [(1, 0), (1, 8), (2, 0)])
def test_volumes(device, groups, block, mode):
    x, weight, bias = numbers(2, 16, 4, 5, 6), numbers(8, 16 // groups, 3, 3, 2, seed=1), numbers(8, seed=2)
    padded = F.pad(x.double(), (0, 0, 1, 1, 1, 1), **({} if mode == "zeros" else {"mode": mode}))
    want = F.conv3d(padded, weight.double(), bias.double(), (1, 2, 1), 0, 1, groups).permute(0, 2, 3, 4, 1)
    raw = ttnn.from_torch(weight, dtype=ttnn.bfloat16)
    matrix = ttnn.experimental.prepare_conv3d_weights(weight_tensor=raw, groups=groups, C_in_block=block, alignment=8, device=device)
    assert list(matrix.shape) == [18 * 16 // groups, 8]
    config = ttnn.Conv3dConfig(C_in_block=block)
    for given in (matrix, raw):
        got = ttnn.experimental.conv3d(
            input_tensor=ttnn.from_torch(x.permute(0, 2, 3, 4, 1).contiguous(), dtype=ttnn.bfloat16, device=device), weight_tensor=given,
            bias_tensor=ttnn.from_torch(bias.reshape(1, 8), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device), config=config,
            dtype=ttnn.bfloat16, output_channels=8, kernel_size=(3, 3, 2), stride=(1, 2, 1), padding=(1, 1, 0), padding_mode=mode, groups=groups,
        )  # fmt: skip
        close(got, want)
        assert got.layout == ttnn.ROW_MAJOR_LAYOUT


def test_volumes_refuse(device):
    x = ttnn.from_torch(torch.zeros(1, 2, 4, 4, 8), dtype=ttnn.bfloat16, device=device)
    words = {"input_tensor": x, "dtype": ttnn.bfloat16, "output_channels": 8, "kernel_size": (3, 3, 3)}
    weight = ttnn.from_torch(torch.zeros(8, 8, 3, 3, 3), dtype=ttnn.bfloat16)
    with pytest.raises(RuntimeError, match="does not fit volumes"):
        ttnn.experimental.conv3d(weight_tensor=weight, **words)
    with pytest.raises(RuntimeError, match="is neither the matrix"):
        ttnn.experimental.conv3d(weight_tensor=ttnn.from_torch(torch.zeros(8, 8, 3, 3, 1), dtype=ttnn.bfloat16), **words)
    with pytest.raises(RuntimeError, match="padding_mode='wrap'"):
        ttnn.experimental.conv3d(weight_tensor=weight, padding_mode="wrap", **words)
