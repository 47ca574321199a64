// How up to three operands of different shapes lie over one output: the fewest nested loops that visit every element, the
// innermost of which has each operand either walking along or standing still.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace tessera {

using Dims = std::vector<std::int64_t>;

struct Broadcast {
  std::vector<std::size_t> sizes;                        // outer loops, outermost first
  std::array<std::vector<std::size_t>, 3> steps;         // of each operand, in elements, for each outer loop
  std::size_t inner = 1, rows = 1;                       // elements of the innermost loop; product of sizes
  std::array<bool, 3> walks{};                           // does an operand move in the innermost loop?

  // Offsets of the operands at the start of outer row `row`.
  std::array<std::size_t, 3> at(std::size_t row) const {
    std::array<std::size_t, 3> offset{};
    for (std::size_t i = sizes.size(); i-- > 0;) {
      const std::size_t place = row % sizes[i];
      row /= sizes[i];
      for (std::size_t k = 0; k < 3; ++k) offset[k] += place * steps[k][i];
    }
    return offset;
  }
};

// Operand shapes are contiguous and broadcast into `out` as in torch; a missing operand is passed as nullptr.
inline Broadcast plan_broadcast(const Dims& out, const std::array<const Dims*, 3>& operands) {
  struct Loop {
    std::size_t size;
    std::array<std::size_t, 3> step;
  };
  std::vector<Loop> loops;  // innermost first
  std::array<std::size_t, 3> stride{1, 1, 1};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto size = static_cast<std::size_t>(out[out.size() - 1 - i]);
    Loop loop{size, {0, 0, 0}};
    for (std::size_t k = 0; k < 3; ++k) {
      if (!operands[k]) continue;
      const Dims& dims = *operands[k];
      if (dims.size() > out.size()) throw std::invalid_argument("an operand has more dimensions than the output");
      const std::size_t mine = i < dims.size() ? static_cast<std::size_t>(dims[dims.size() - 1 - i]) : 1;
      if (mine != size && mine != 1) throw std::invalid_argument("an operand does not broadcast to the output's shape");
      if (mine != 1) loop.step[k] = stride[k];
      stride[k] *= mine;
    }
    if (size == 1) continue;
    if (!loops.empty()) {
      Loop& last = loops.back();
      bool joins = true;
      for (std::size_t k = 0; k < 3; ++k) joins = joins && loop.step[k] == last.step[k] * last.size;
      if (joins) {
        last.size *= size;
        continue;
      }
    }
    loops.push_back(loop);
  }
  Broadcast plan;
  if (!loops.empty()) {
    plan.inner = loops.front().size;
    for (std::size_t k = 0; k < 3; ++k) plan.walks[k] = loops.front().step[k] != 0;
  }
  for (std::size_t i = loops.size(); i-- > 1;) {
    plan.sizes.push_back(loops[i].size);
    plan.rows *= loops[i].size;
    for (std::size_t k = 0; k < 3; ++k) plan.steps[k].push_back(loops[i].step[k]);
  }
  return plan;
}

}  // namespace tessera
