// Elementwise steps on rows of bfloat16: widen, compute in fp32, round once.
//
// A step is the same code whether it is a whole operation over millions of elements or one link of a chain that works on a
// block in the L1 cache; that is why a fused chain and the operations one by one cannot differ in a single bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.hpp"

namespace tessera {

// One element operand: a row of bfloat16, or one number for the whole row when `row` is null.
struct Operand {
  const std::uint16_t* row;
  float value;
};

enum class Unary : std::uint8_t {
  copy, neg, abs, relu, square, sqrt, rsqrt, reciprocal, exp, exp2, log, log2, sigmoid, silu, tanh, erf, sign, gelu, count
};
constexpr bool is_exact(Unary step) { return step <= Unary::reciprocal && step != Unary::rsqrt ? true : step == Unary::sign; }
enum class Binary : std::uint8_t { add, sub, mul, div, maximum, minimum, eq, ne, lt, le, gt, ge, squared_difference, rsub, first, count };

// The same for work that stays in fp32: a row of bfloat16 or of fp32, or one number.
struct WideOperand {
  const void* row;
  bool is_float;
  float value;
};

struct ElementwiseKernels {
  void (*unary)(Unary step, const std::uint16_t* in, std::uint16_t* out, std::size_t count);
  // From fp32, for what follows a sum that was not rounded yet. `in` and `out` may not overlap.
  void (*unary_of_float)(Unary step, const float* in, std::uint16_t* out, std::size_t count);
  void (*binary)(Binary step, Operand a, Operand b, std::uint16_t* out, std::size_t count);
  // Results in fp32, subnormal ones flushed. `unary_wide` knows the exact steps only: copy to reciprocal in the enum, and sign.
  void (*unary_wide)(Unary step, WideOperand in, float* out, std::size_t count);
  void (*binary_wide)(Binary step, WideOperand a, WideOperand b, float* out, std::size_t count);
  void (*table_wide)(const float* table, const std::uint16_t* in, float* out, std::size_t count);
  // condition != 0 ? a : b
  void (*where)(const std::uint16_t* condition, Operand a, Operand b, std::uint16_t* out, std::size_t count);
  // Any function of one bfloat16 is a table of 65,536 of them.
  void (*table)(const std::uint16_t* table, const std::uint16_t* in, std::uint16_t* out, std::size_t count);
};

}  // namespace tessera

TESSERA_DECLARE_KERNELS(ElementwiseKernels)
