"""Operation tracing, first example of its guide: three operations, three files. What is in them, and how to look at them afterwards."""

import json
import tempfile
from pathlib import Path

import ttnn
import ttnn.operation_tracer

with tempfile.TemporaryDirectory() as folder:
    # By default files go to generated/ttnn/operation_parameters; here they go where they are cleaned up.
    ttnn.CONFIG.operation_parameter_log_dir = folder
    ttnn.operation_tracer._ENABLE_TRACE = True

    device = ttnn.open_device(device_id=0)
    a = ttnn.rand(shape=[2, 3], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    b = ttnn.rand(shape=[2, 3], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    c = ttnn.add(a, b)

    ttnn.operation_tracer._ENABLE_TRACE = False
    ttnn.CONFIG.operation_parameter_log_dir = None
    ttnn.close_device(device)

    files = sorted(Path(folder).iterdir(), key=lambda file: int(file.name.split("_")[0]))
    for file in files:
        print(file.name)
    add = json.loads(files[2].read_text())
    for argument in add["args"]:
        value = argument["value"]
        print(f"argument {argument['position']}: {value['dtype']} {value['shape']} {value['layout']} {value['storage_type']}")
    assert [json.loads(f.read_text())["operation_name"] for f in files] == ["ttnn.rand", "ttnn.rand", "ttnn.add"]

print("look at a folder of traces with: tessera trace FOLDER [--replay]")
