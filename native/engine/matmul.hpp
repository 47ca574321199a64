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

struct Attention {
  const std::uint16_t *q, *k, *v;   // [batch, heads, rows, width], [batch, shared heads, keys, width], [batch, shared heads, keys, wide]
  const std::uint16_t* mask;        // [batch or 1, heads or 1, rows, keys], or null
  std::size_t batch, heads, shared, rows, keys, width, wide;
  std::size_t mask_batch, mask_heads;  // sizes of the mask's leading dimensions
  float scale;
  bool causal;  // row r sees keys 0..r
};

// out[batch, heads, rows, wide] = softmax(q k^T * scale + mask) v. `width` must be even.
void run_attention(const Attention& a, std::uint16_t* out, int threads);

}  // namespace tessera
