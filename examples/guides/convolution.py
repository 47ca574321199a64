"""A convolution. torch holds pictures as (N, C, H, W); the chip wants channels last, one row for each pixel."""

import torch

import ttnn

N, C, H, W, OUT = 1, 32, 16, 16, 64
torch.manual_seed(0)
picture, weight, bias = torch.randn(N, C, H, W), torch.randn(OUT, C, 3, 3) / 17, torch.randn(OUT)
expected = torch.nn.functional.conv2d(picture, weight, bias, padding=1)

device = ttnn.open_device(device_id=0, l1_small_size=16384)  # convolutions keep their tables in L1_SMALL
nchw = ttnn.from_torch(picture, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device)
nhwc = ttnn.permute(nchw, (0, 2, 3, 1))
output, (height, width) = ttnn.conv2d(
    input_tensor=nhwc,
    weight_tensor=ttnn.from_torch(weight, dtype=ttnn.bfloat16),
    bias_tensor=ttnn.from_torch(bias.reshape(1, 1, 1, OUT), dtype=ttnn.bfloat16),
    device=device,
    in_channels=C,
    out_channels=OUT,
    batch_size=N,
    input_height=H,
    input_width=W,
    kernel_size=(3, 3),
    stride=(1, 1),
    padding=(1, 1),
    conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat16),
    return_output_dim=True,
)
got = ttnn.to_torch(output).float().reshape(N, height, width, OUT).permute(0, 3, 1, 2)
pcc = ttnn.pearson_correlation_coefficient(expected, got)
print(f"conv2d to {tuple(got.shape)}: PCC {pcc:.6f}")
assert pcc > 0.999
ttnn.close_device(device)
