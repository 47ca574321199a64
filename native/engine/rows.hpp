// Row kernels over whole tensors of shape (rows, width), in pieces for threads; sorting; rearranging of dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/broadcast.hpp"
#include "kernels/rows.hpp"

namespace tessera {

// Masks repeat: row r of the input meets row (r / outer_repeat % mask_rows) of the mask.
struct MaskRows {
  const std::uint16_t* mask;
  std::size_t rows, repeat;
};

void run_softmax(const std::uint16_t* in, MaskRows mask, float scale, std::uint16_t* out, std::size_t rows, std::size_t width, int threads);
void run_norm(NormRow row, std::uint16_t* out, std::size_t rows, std::size_t width, int threads);

enum class Reduction : int { sum, max, min };
// out[row] in fp32, times `scale`.
void run_reduce(Reduction kind, const std::uint16_t* in, float scale, float* out, std::size_t rows, std::size_t width, int threads);
void run_arg(Reduction kind, const std::uint16_t* in, std::int64_t* out, std::size_t rows, std::size_t width, int threads);
void run_cumsum(const std::uint16_t* in, std::uint16_t* out, std::size_t rows, std::size_t width, int threads);
// The first `keep` of each row in order, ties in the order of their places; NaN counts as the largest.
void run_sort(const std::uint16_t* in, std::uint16_t* values, std::int64_t* places, std::size_t rows, std::size_t width, std::size_t keep,
              bool descending, int threads);
// Row i of out is row index[i] of the table, the nearest there is.
void run_gather(const void* table, std::size_t rows, const std::int64_t* index, std::size_t count, void* out, std::size_t row_bytes, int threads);
// out = in.permute(order), contiguous, for elements of 1, 2, 4 or 8 bytes.
void run_permute(const void* in, void* out, std::size_t element_size, const Dims& dims, const std::vector<std::int64_t>& order, int threads);

}  // namespace tessera
