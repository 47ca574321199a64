"""Graph capture: what a program does as a graph, and what it would do, asked without running it."""

import torch

import ttnn

torch.manual_seed(0)
device = ttnn.open_device(device_id=0)
x = ttnn.from_torch(
    torch.randn(1, 1, 64, 128), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG
)
w = ttnn.from_torch(torch.randn(128, 256), dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=device)


def layer(x: ttnn.Tensor) -> ttnn.Tensor:
    y = ttnn.linear(x, w, activation="relu", memory_config=ttnn.L1_MEMORY_CONFIG)
    return ttnn.softmax(y, dim=-1)


ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
out = layer(x)
graph = ttnn.graph.end_graph_capture()
ttnn.graph.pretty_print(graph)
print("peak L1:", ttnn.graph.extract_peak_L1_memory_usage(graph), "B; comes out:", ttnn.graph.extract_output_info(graph))

# Would a batch of 4096 fit? Nothing is computed and nothing allocated to find out.
ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NO_DISPATCH)
big = ttnn.empty([4096, 1, 64, 128], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
layer(big)
graph = ttnn.graph.end_graph_capture()
room = ttnn.get_memory_view(device, ttnn.BufferType.L1)
need, have = ttnn.graph.extract_peak_L1_memory_usage(graph), room.num_banks * room.total_bytes_per_bank
print(f"a batch of 4096 takes {need / 2**20:.0f} MiB of L1 at most; there are {have / 2**20:.0f}")
assert need > have
ttnn.close_device(device)
