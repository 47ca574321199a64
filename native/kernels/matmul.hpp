// Products of bfloat16 matrices with fp32 accumulation, and of a bfloat16 matrix with packed block floats.
//
// The right side is worked on in panels of 64 columns: for each pair of rows (k, k + 1) a line of 64 words, row k in the low half of
// a word and row k + 1 in the high half, which is what the dot-product instructions of bfloat16 want. Block floats are expanded into
// such panels a few at a time, in the cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.hpp"

namespace tessera {

constexpr std::size_t PANEL = 64;  // columns
constexpr std::size_t STRIP = 6;   // rows of the left side at a time

// Where the left side is: word (r, p) of a strip, elements 2p and 2p + 1 of row r, lies at word r * row + p * pair.
struct LeftStrip {
  const std::uint32_t* words;
  std::size_t row, pair;
};

struct MatmulKernels {
  // out[r][0..64) = (first ? 0 : out) + left strip x panel, for `rows` <= STRIP rows; `stride` floats between rows of out.
  void (*product)(LeftStrip left, std::size_t rows, const std::uint32_t* panel, std::size_t pairs, float* out, std::size_t stride, bool first);
  // The same with the CPU's own bfloat16 instructions; null where this instruction set has none. Needs cpu_features().avx512_bf16.
  void (*product_bf16)(LeftStrip left, std::size_t rows, const std::uint32_t* panel, std::size_t pairs, float* out, std::size_t stride, bool first);
  // A panel of `columns` <= 64 columns from row-major bfloat16; what is missing is zero.
  void (*panel)(const std::uint16_t* right, std::size_t stride, std::size_t rows, std::size_t columns, std::uint32_t* panel);
  // The same from the transposed matrix: `right` holds a row for each column.
  void (*panel_transposed)(const std::uint16_t* right, std::size_t stride, std::size_t rows, std::size_t columns, std::uint32_t* panel);
  // One 32x32 tile of block floats with `bits` bits of magnitude (7 or 3) into its half of a panel (`panel` points to its first line and column).
  void (*expand)(const std::uint8_t* tile, int bits, std::uint32_t* panel);
  // out[0..32) = a row of fp32 times a column of tiles: `down` tiles, `stride` bytes from one to the next.
  void (*row_times_tiles)(const float* left, const std::uint8_t* tiles, std::size_t stride, std::size_t down, int bits, float* out);
  // The same for seven bits with the CPU's own bfloat16 instructions; null where there are none. Needs cpu_features().avx512_bf16.
  void (*row_times_tiles_bf16)(const float* left, const std::uint8_t* tiles, std::size_t stride, std::size_t down, float* out);
  // Rows of fp32 to bfloat16 or fp32, with a row of bias (null for none): out = in + bias.
  void (*finish)(const float* in, const std::uint16_t* bias, std::uint16_t* out, std::size_t count);
  // The same with the CPU's own rounding; null where this instruction set has none. Needs cpu_features().avx512_bf16.
  void (*finish_bf16)(const float* in, const std::uint16_t* bias, std::uint16_t* out, std::size_t count);
};

}  // namespace tessera

TESSERA_DECLARE_KERNELS(MatmulKernels)
