// Work on whole rows of bfloat16: reductions, softmax, normalisation, running sums. fp32 inside, one rounding at the end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.hpp"

namespace tessera {

struct NormRow {
  const std::uint16_t* in;
  const std::uint16_t* residual;  // or null
  const std::uint16_t* weight;    // or null
  const std::uint16_t* bias;      // or null
  float epsilon;
  bool centered;  // layer norm; otherwise rms norm
};

struct RowKernels {
  // `scratch` holds at least count + 64 floats. softmax(in * scale + mask), mask may be null.
  void (*softmax)(const std::uint16_t* in, const std::uint16_t* mask, float scale, std::uint16_t* out, std::size_t count, float* scratch);
  void (*norm)(const NormRow& row, std::uint16_t* out, std::size_t count, float* scratch);
  float (*sum)(const std::uint16_t* in, std::size_t count);
  // NaN if there is one, as in torch.
  float (*max)(const std::uint16_t* in, std::size_t count);
  float (*min)(const std::uint16_t* in, std::size_t count);
  // The first element that equals `value` (or is NaN, for NaN).
  std::size_t (*find)(const std::uint16_t* in, std::size_t count, float value);
  void (*cumsum)(const std::uint16_t* in, std::uint16_t* out, std::size_t count);
  // weights = exp(in * scale + mask - their maximum) over `count` elements, unnormalised; answers their sum. `mask` may be null; `in` is changed.
  float (*weigh)(float* in, const std::uint16_t* mask, float scale, std::uint16_t* weights, std::size_t count);
  // An 8-row piece of a transposition of 16-bit elements: out[c][r] = in[r][c], for rows x columns.
  void (*transpose)(const std::uint16_t* in, std::size_t in_stride, std::uint16_t* out, std::size_t out_stride, std::size_t rows, std::size_t columns);
};

}  // namespace tessera

TESSERA_DECLARE_KERNELS(RowKernels)
