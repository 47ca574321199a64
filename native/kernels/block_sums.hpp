// The sum of block floats as they lie packed: a pass over a weight that never expands it.
#pragma once

#include <cstddef>

#include "isa.hpp"
#include "kernels/blocks.hpp"

namespace tessera {

struct BlockSumKernels {
  // The sum of `tiles` tiles of `elements` elements. NaN if any block has the exponent of infinities and NaNs: whoever asked must look.
  double (*sum)(BlockFormat, std::size_t elements, const std::byte* image, std::size_t tiles);
};

}  // namespace tessera

TESSERA_DECLARE_KERNELS(BlockSumKernels)
