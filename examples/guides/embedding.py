"""Looking words up: indices are uint32, the table is row-major, and the rows come out in the layout that is asked for."""

import torch

import ttnn

torch.manual_seed(0)
table, words = torch.randn(1000, 64).bfloat16(), torch.randint(0, 1000, (2, 32))

with ttnn.manage_device(device_id=0) as device:
    indices = ttnn.from_torch(words.to(torch.int32), dtype=ttnn.uint32, device=device)
    weights = ttnn.from_torch(table, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device)
    for layout in (ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT):
        rows = ttnn.embedding(indices, weights, layout=layout)
        assert rows.layout == layout
        assert torch.equal(ttnn.to_torch(rows), table[words])
    print("embedding: exact in both layouts")
