// Matrix products: which panels are made when, and by which thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

// The right side: row-major bfloat16 (bits == 0), its transpose, or tiles of block floats (7 or 3 bits of magnitude).
struct Right {
  const void* data;
  int bits;
  bool transposed;
};

// out[m][n] = left[m][k] x right[k][n] (+ bias[n]), for one matrix. `left` and `out` are row-major; k must be even unless right is bfloat16 and m * k is small
// (the left side is then copied with a zero after each row). `out_float` asks for fp32 results.
void run_matmul(const std::uint16_t* left, const Right& right, const std::uint16_t* bias, void* out, bool out_float, std::size_t m, std::size_t k,
                std::size_t n, int threads);

}  // namespace tessera
