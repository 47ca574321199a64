"""Opening and closing: a device by hand, with room for convolutions, and as a context that cannot forget to close."""

import ttnn

device = ttnn.open_device(device_id=0)
print("one chip:", device)
ttnn.close_device(device)

# Convolutions and pools keep small tables in a region of L1 that has to be set aside when the device opens.
device = ttnn.open_device(device_id=0, l1_small_size=8192)
print("cores for tensors:", device.compute_with_storage_grid_size())
ttnn.close_device(device)

with ttnn.manage_device(device_id=0) as device:
    ones = ttnn.ones((32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    assert float(ttnn.to_torch(ones).sum()) == 1024.0
