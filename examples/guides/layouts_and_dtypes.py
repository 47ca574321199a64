"""Row-major for loading and looking, tiles for computing; which number formats exist and what each costs."""

import torch

import ttnn

with ttnn.manage_device(device_id=0) as device:
    # A tile is 32 x 32. Shapes that are no multiple of it are padded in memory; the logical shape stays.
    odd = ttnn.from_torch(torch.randn(1, 30, 50), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    print("shape", odd.shape, "padded", odd.padded_shape)
    assert list(odd.padded_shape) == [1, 32, 64]

    rows = ttnn.to_layout(odd, ttnn.ROW_MAJOR_LAYOUT)
    tiles = ttnn.to_layout(rows, ttnn.TILE_LAYOUT)
    assert rows.layout == ttnn.ROW_MAJOR_LAYOUT
    assert torch.equal(ttnn.to_torch(tiles), ttnn.to_torch(odd))

    numbers = torch.randn(64, 64)
    for dtype in (ttnn.float32, ttnn.bfloat16, ttnn.bfloat8_b, ttnn.bfloat4_b):
        tensor = ttnn.from_torch(numbers, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)
        away = (ttnn.to_torch(tensor).float() - numbers).abs().max()
        print(f"{dtype}: {tensor.buffer_page_size()} bytes a tile, at most {away:.5f} away from fp32")
    for dtype in (ttnn.uint16, ttnn.uint32, ttnn.int32):
        tensor = ttnn.from_torch(torch.arange(64).reshape(2, 32).to(torch.int32), dtype=dtype, device=device)
        assert ttnn.to_torch(tensor).to(torch.int64).flatten().tolist() == list(range(64))

    # Block floats share an exponent inside a tile, so they exist in tiles only.
    try:
        ttnn.from_torch(numbers, dtype=ttnn.bfloat8_b, layout=ttnn.ROW_MAJOR_LAYOUT, device=device)
    except RuntimeError as error:
        print("refused:", str(error).splitlines()[0])
