"""Operation tracing, second example of its guide: a tensor comes from torch and goes to the device, with its values written down."""

import json
import tempfile
from pathlib import Path

import torch

import ttnn
import ttnn.operation_tracer

torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    ttnn.CONFIG.operation_parameter_log_dir = folder
    ttnn.operation_tracer.enable_tracing()
    ttnn.operation_tracer.enable_tensor_value_serialization()

    device = ttnn.open_device(device_id=0)
    torch_tensor = torch.randn([2, 3], dtype=torch.bfloat16)
    tensor_host = ttnn.from_torch(torch_tensor, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    tensor_device = ttnn.to_device(tensor_host, device=device, memory_config=ttnn.DRAM_MEMORY_CONFIG)

    ttnn.operation_tracer.enable_tensor_value_serialization(False)
    ttnn.operation_tracer.enable_tracing(False)
    ttnn.CONFIG.operation_parameter_log_dir = None
    ttnn.close_device(device)

    made, moved = (json.loads(file.read_text()) for file in sorted(Path(folder).iterdir()))
    for row in (made, moved):
        given, result = row["args"][0]["value"], row["return_value"]
        print(f"{row['operation_name']}: {given['type']} -> {result['type']} on {result['storage_type']}, {row['num_tensors']} tensors")
    # bfloat16 is written as float32, exactly.
    assert moved["return_value"]["dtype"] == "float32" and moved["return_value"]["original_dtype"] == "bfloat16"
    assert moved["return_value"]["values"] == torch_tensor.float().tolist()
    print("values:", moved["return_value"]["values"])
