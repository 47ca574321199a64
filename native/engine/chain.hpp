// Elementwise steps in a row over operands of one size: block after block, with what lies between the steps in the L1 cache.
//
// Each step is the kernel that the operation by itself would use, on a piece of its operands, and rounds where that would round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera {

struct ChainStep {
  enum Kind : int { unary, binary, scalar, reflected, table } kind;
  int step;             // of the kernels' enums; unused for a table
  int a, b, out;        // registers; `b` only for binary
  float number;         // for scalar and reflected
  std::uintptr_t values;  // of a table: address of 65,536 values
};

class Chain {
 public:
  // Throws std::invalid_argument for steps or registers that do not exist, or that read what nothing has written.
  Chain(std::vector<ChainStep> steps, int registers, int inputs);

  // `memory[r]` is where register r lives, of `count` elements; null for one that nobody outside needs. The first `inputs` are read.
  void run(const std::vector<std::uintptr_t>& memory, std::size_t count, int threads) const;

  int registers() const { return static_cast<int>(last_use_.size()); }

 private:
  std::vector<ChainStep> steps_;
  std::vector<std::size_t> last_use_;  // the last step that reads a register
  int inputs_;
};

}  // namespace tessera
