// Block floats: sixteen elements under one 8-bit exponent, a sign and 7, 3 or 1 bits of magnitude each.
// The definition is tessera/formats/blocks.py; these give the same bits.
#pragma once

#include <cstddef>

#include "isa.hpp"
#include "kernels/tiles.hpp"

namespace tessera {

enum class FloatKind : int { float32 = 0, bfloat16 = 1 };

inline std::size_t float_size(FloatKind kind) { return kind == FloatKind::float32 ? 4 : 2; }

struct BlockFormat {
  int magnitude_bits;  // 7, 3 or 1
  bool device_rounding;

  int bits() const { return magnitude_bits + 1; }
  std::size_t exponent_bytes(std::size_t elements) const { return (elements / 16 + 15) / 16 * 16; }
  std::size_t tile_bytes(std::size_t elements) const { return exponent_bytes(elements) + elements * static_cast<std::size_t>(bits()) / 8; }
};

struct BlockKernels {
  // Rows of tiles [begin, end), counted over all matrices; one pass from row-major floats to the packed image and back.
  void (*pack)(const TileGrid&, BlockFormat, FloatKind, const std::byte* values, std::byte* image, float pad, std::size_t begin,
               std::size_t end);
  void (*unpack)(const TileGrid&, BlockFormat, FloatKind, const std::byte* image, std::byte* values, std::size_t begin, std::size_t end);
  // Rows [begin, end) of row-major floats onto the grid; `to` may be `from` when both kinds are the same.
  void (*quantize)(BlockFormat, FloatKind from_kind, const std::byte* from, FloatKind to_kind, std::byte* to, std::size_t columns,
                   std::size_t begin, std::size_t end, bool past_caches);
};

}  // namespace tessera

TESSERA_DECLARE_KERNELS(BlockKernels)
