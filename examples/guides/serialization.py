"""Save tensors, load them on the host or on a device, and look into the file (guide "Tensor Serialization", sections 2, 3 and 7.1)."""

import os
import struct
import tempfile

import torch

import ttnn

with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)

    # Save a tensor, load it back to the host.
    source = torch.randn(64, 128)
    tensor = ttnn.from_torch(source, dtype=ttnn.bfloat16)
    ttnn.dump_tensor("weights.tensorbin", tensor)
    loaded = ttnn.load_tensor("weights.tensorbin")
    assert torch.equal(ttnn.to_torch(loaded), source.bfloat16())

    # Or load it directly to a device: it gets the memory config that the file records.
    device = ttnn.open_device(device_id=0)
    on_device = ttnn.load_tensor("weights.tensorbin", device=device)
    assert on_device.storage_type() == ttnn.StorageType.DEVICE
    assert on_device.memory_config() == ttnn.DRAM_MEMORY_CONFIG
    assert torch.equal(ttnn.to_torch(on_device), source.bfloat16())

    # The file: 8 bytes of length, that many bytes of FlatBuffer metadata, then the data, all on multiples of 8.
    with open("weights.tensorbin", "rb") as file:
        (header_size,) = struct.unpack("<Q", file.read(8))
    data_size = os.path.getsize("weights.tensorbin") - 8 - header_size
    assert (8 + header_size) % 8 == 0
    assert data_size == 64 * 128 * 2
    print(f"weights.tensorbin: header of {header_size} bytes, data of {data_size}")

    # Every dtype and layout comes back as it was.
    for dtype in (ttnn.float32, ttnn.bfloat8_b, ttnn.bfloat4_b, ttnn.uint32, ttnn.int32, ttnn.uint16, ttnn.uint8, ttnn.int8):
        whole = torch.randint(0, 100, (33, 47), dtype=torch.int32)
        tiled = ttnn.from_torch(whole.float() if "FLOAT" in dtype.name else whole, dtype=dtype, layout=ttnn.TILE_LAYOUT)
        ttnn.dump_tensor(f"tiled_{dtype.name}.tensorbin", tiled)
        again = ttnn.load_tensor(f"tiled_{dtype.name}.tensorbin")
        assert (again.dtype, again.layout, again.shape) == (tiled.dtype, tiled.layout, tiled.shape)
        assert torch.equal(ttnn.to_torch(again), ttnn.to_torch(tiled))
    print("eight dtypes and TILE_LAYOUT came back")

    # Only files that are called tensor files are.
    try:
        ttnn.dump_tensor("weights.bin", tensor)
    except RuntimeError as error:
        print("refused:", error)

    ttnn.close_device(device)
    os.chdir("/")
