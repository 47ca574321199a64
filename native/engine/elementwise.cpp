#include "engine/elementwise.hpp"

#include "parallel.hpp"

namespace tessera {
namespace {

// Below this many elements a second thread costs more than it brings.
constexpr std::size_t GRAIN = 128 * 1024;

float widened(std::uint16_t x) {
  const std::uint32_t u = static_cast<std::uint32_t>(x) << 16;
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}

// Cuts [0, rows * inner) into pieces and calls visit(row, first, count) for every part of a row in a piece.
template <class Visit>
void over_rows(std::size_t rows, std::size_t inner, int threads, Visit&& visit) {
  if (rows == 1) {
    parallel_for(inner, GRAIN, threads, [&](std::size_t begin, std::size_t end) { visit(0, begin, end - begin); });
  } else {
    parallel_for(rows, GRAIN / (inner + 1) + 1, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) visit(row, 0, inner);
    });
  }
}

struct Source {
  const std::uint16_t* data;
  float value;
  bool walks;

  Operand at(std::size_t offset, std::size_t first) const {
    if (!data) return {nullptr, value};
    return walks ? Operand{data + offset + first, 0.0f} : Operand{nullptr, widened(data[offset])};
  }
};

}  // namespace

void run_unary(Unary step, const std::uint16_t* in, std::uint16_t* out, std::size_t count, int threads) {
  const auto& table = kernels<ElementwiseKernels>();
  parallel_for(count, GRAIN, threads, [&](std::size_t begin, std::size_t end) { table.unary(step, in + begin, out + begin, end - begin); });
}

void run_unary_of_float(Unary step, const float* in, std::uint16_t* out, std::size_t count, int threads) {
  const auto& table = kernels<ElementwiseKernels>();
  parallel_for(count, GRAIN, threads, [&](std::size_t begin, std::size_t end) { table.unary_of_float(step, in + begin, out + begin, end - begin); });
}

void run_table(const std::uint16_t* values, const std::uint16_t* in, std::uint16_t* out, std::size_t count, int threads) {
  const auto& table = kernels<ElementwiseKernels>();
  parallel_for(count, GRAIN, threads, [&](std::size_t begin, std::size_t end) { table.table(values, in + begin, out + begin, end - begin); });
}

void run_binary_flat(Binary step, Operand a, Operand b, std::uint16_t* out, std::size_t count, int threads) {
  const auto& table = kernels<ElementwiseKernels>();
  const auto from = [](Operand x, std::size_t begin) { return x.row ? Operand{x.row + begin, 0.0f} : x; };
  parallel_for(count, GRAIN, threads,
               [&](std::size_t begin, std::size_t end) { table.binary(step, from(a, begin), from(b, begin), out + begin, end - begin); });
}

void run_binary(Binary step, const std::uint16_t* a, float a_value, const Dims& a_dims, const std::uint16_t* b, float b_value, const Dims& b_dims,
                std::uint16_t* out, const Dims& out_dims, int threads) {
  const auto& table = kernels<ElementwiseKernels>();
  const Broadcast plan = plan_broadcast(out_dims, {a ? &a_dims : nullptr, b ? &b_dims : nullptr, nullptr});
  const Source left{a, a_value, plan.walks[0]}, right{b, b_value, plan.walks[1]};
  over_rows(plan.rows, plan.inner, threads, [&](std::size_t row, std::size_t first, std::size_t count) {
    const auto offset = plan.at(row);
    table.binary(step, left.at(offset[0], first), right.at(offset[1], first), out + row * plan.inner + first, count);
  });
}

namespace {

WideOperand moved(const WideOperand& x, std::size_t offset) {
  if (!x.row) return x;
  return {static_cast<const char*>(x.row) + offset * (x.is_float ? sizeof(float) : sizeof(std::uint16_t)), x.is_float, 0.0f};
}

// An operand that stands still is a number.
WideOperand in_row(const WideOperand& x, bool walks, std::size_t offset, std::size_t first) {
  if (!x.row || walks) return moved(x, offset + first);
  const WideOperand here = moved(x, offset);
  return {nullptr, false, x.is_float ? *static_cast<const float*>(here.row) : widened(*static_cast<const std::uint16_t*>(here.row))};
}

}  // namespace

void run_unary_wide(Unary step, WideOperand in, const float* values, float* out, std::size_t count, int threads) {
  const auto& table = kernels<ElementwiseKernels>();
  parallel_for(count, GRAIN, threads, [&](std::size_t begin, std::size_t end) {
    const WideOperand mine = moved(in, begin);
    if (values) {
      table.table_wide(values, static_cast<const std::uint16_t*>(mine.row), out + begin, end - begin);
    } else {
      table.unary_wide(step, mine, out + begin, end - begin);
    }
  });
}

void run_binary_wide(Binary step, WideOperand a, const Dims& a_dims, WideOperand b, const Dims& b_dims, float* out, const Dims& out_dims, int threads) {
  const auto& table = kernels<ElementwiseKernels>();
  const Broadcast plan = plan_broadcast(out_dims, {a.row ? &a_dims : nullptr, b.row ? &b_dims : nullptr, nullptr});
  over_rows(plan.rows, plan.inner, threads, [&](std::size_t row, std::size_t first, std::size_t count) {
    const auto offset = plan.at(row);
    table.binary_wide(step, in_row(a, plan.walks[0], offset[0], first), in_row(b, plan.walks[1], offset[1], first), out + row * plan.inner + first, count);
  });
}

void run_where(const std::uint16_t* condition, const Dims& c_dims, const std::uint16_t* a, float a_value, const Dims& a_dims,
               const std::uint16_t* b, float b_value, const Dims& b_dims, std::uint16_t* out, const Dims& out_dims, int threads) {
  const auto& table = kernels<ElementwiseKernels>();
  const Broadcast plan = plan_broadcast(out_dims, {&c_dims, a ? &a_dims : nullptr, b ? &b_dims : nullptr});
  const Source left{a, a_value, plan.walks[1]}, right{b, b_value, plan.walks[2]};
  over_rows(plan.rows, plan.inner, threads, [&](std::size_t row, std::size_t first, std::size_t count) {
    const auto offset = plan.at(row);
    const Operand x = left.at(offset[1], first), y = right.at(offset[2], first);
    std::uint16_t* to = out + row * plan.inner + first;
    if (plan.walks[0] || plan.inner == 1) {
      table.where(condition + offset[0] + first, x, y, to, count);
    } else {
      table.binary(Binary::first, widened(condition[offset[0]]) != 0.0f ? x : y, {nullptr, 0.0f}, to, count);
    }
  });
}

}  // namespace tessera
