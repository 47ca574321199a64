// Elementwise operations over whole tensors: pieces for threads, broadcasting, chains over blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/broadcast.hpp"
#include "kernels/elementwise.hpp"

namespace tessera {

// A block of a chain: this many elements of every value in it stay in the L1 cache.
constexpr std::size_t BLOCK = 4096;

void run_unary(Unary step, const std::uint16_t* in, std::uint16_t* out, std::size_t count, int threads);
void run_unary_of_float(Unary step, const float* in, std::uint16_t* out, std::size_t count, int threads);
void run_table(const std::uint16_t* table, const std::uint16_t* in, std::uint16_t* out, std::size_t count, int threads);
// Without broadcasting: two rows, a row and a number, or a number and a row.
void run_binary_flat(Binary step, Operand a, Operand b, std::uint16_t* out, std::size_t count, int threads);
// `a` or `b` null: the number instead. Shapes are those of the tensors.
void run_binary(Binary step, const std::uint16_t* a, float a_value, const Dims& a_dims, const std::uint16_t* b, float b_value, const Dims& b_dims,
                std::uint16_t* out, const Dims& out_dims, int threads);
// fp32 results. `table` null: a step, else a table of 65,536 fp32 values for bfloat16 elements.
void run_unary_wide(Unary step, WideOperand in, const float* table, float* out, std::size_t count, int threads);
void run_binary_wide(Binary step, WideOperand a, const Dims& a_dims, WideOperand b, const Dims& b_dims, float* out, const Dims& out_dims, int threads);
void run_where(const std::uint16_t* condition, const Dims& c_dims, const std::uint16_t* a, float a_value, const Dims& a_dims,
               const std::uint16_t* b, float b_value, const Dims& b_dims, std::uint16_t* out, const Dims& out_dims, int threads);

}  // namespace tessera
