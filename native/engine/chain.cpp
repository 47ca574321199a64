#include "engine/chain.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "kernels/elementwise.hpp"
#include "parallel.hpp"

namespace tessera {
namespace {

constexpr std::size_t BLOCK = 2048;        // elements: 4 KiB for each value between steps
constexpr std::size_t GRAIN = 32 * BLOCK;

}  // namespace

Chain::Chain(std::vector<ChainStep> steps, int registers, int inputs) : steps_(std::move(steps)), inputs_(inputs) {
  if (registers < 0 || inputs < 0 || inputs > registers) throw std::invalid_argument("registers: must hold the inputs");
  last_use_.assign(static_cast<std::size_t>(registers), 0);
  std::vector<bool> written(last_use_.size(), false);
  std::fill(written.begin(), written.begin() + inputs, true);
  const auto reads = [&](int r, std::size_t at) {
    if (r < 0 || r >= registers || !written[static_cast<std::size_t>(r)]) throw std::invalid_argument("a step reads a register that nothing wrote");
    last_use_[static_cast<std::size_t>(r)] = at;
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const ChainStep& s = steps_[i];
    const int most = s.kind == ChainStep::unary ? static_cast<int>(Unary::count) : static_cast<int>(Binary::count);
    if (s.kind < ChainStep::unary || s.kind > ChainStep::table || (s.kind != ChainStep::table && (s.step < 0 || s.step >= most)))
      throw std::invalid_argument("a step has no kernel");
    reads(s.a, i);
    if (s.kind == ChainStep::binary) reads(s.b, i);
    if (s.out < inputs || s.out >= registers || written[static_cast<std::size_t>(s.out)])
      throw std::invalid_argument("a step must write a register of its own");
    written[static_cast<std::size_t>(s.out)] = true;
    last_use_[static_cast<std::size_t>(s.out)] = i;
  }
}

void Chain::run(const std::vector<std::uintptr_t>& memory, std::size_t count, int threads) const {
  if (memory.size() != last_use_.size()) throw std::invalid_argument("memory: one address for each register");
  for (int r = 0; r < inputs_; ++r)
    if (!memory[static_cast<std::size_t>(r)]) throw std::invalid_argument("memory: inputs have an address");
  // Rooms in the cache for what has no memory of its own; a room is free again after its last use.
  std::vector<int> room(memory.size(), -1);
  std::vector<std::size_t> busy_until;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto r = static_cast<std::size_t>(steps_[i].out);
    if (memory[r]) continue;
    const auto free = std::find_if(busy_until.begin(), busy_until.end(), [&](std::size_t until) { return until < i; });
    room[r] = static_cast<int>(free - busy_until.begin());
    if (free == busy_until.end()) {
      busy_until.push_back(last_use_[r]);
    } else {
      *free = last_use_[r];
    }
  }
  const auto& kernel = kernels<ElementwiseKernels>();
  parallel_for(count, GRAIN, threads, [&](std::size_t begin, std::size_t end) {
    const std::unique_ptr<std::uint16_t[]> rooms(new std::uint16_t[busy_until.size() * BLOCK + 64]);
    for (std::size_t first = begin; first < end; first += BLOCK) {
      const std::size_t length = std::min(BLOCK, end - first);
      const auto at = [&](int r) {
        const auto index = static_cast<std::size_t>(r);
        return room[index] >= 0 ? rooms.get() + static_cast<std::size_t>(room[index]) * BLOCK : reinterpret_cast<std::uint16_t*>(memory[index]) + first;
      };
      for (const ChainStep& s : steps_) {
        const Operand a{at(s.a), 0.0f}, number{nullptr, s.number};
        switch (s.kind) {
          case ChainStep::unary: kernel.unary(static_cast<Unary>(s.step), a.row, at(s.out), length); break;
          case ChainStep::binary: kernel.binary(static_cast<Binary>(s.step), a, {at(s.b), 0.0f}, at(s.out), length); break;
          case ChainStep::scalar: kernel.binary(static_cast<Binary>(s.step), a, number, at(s.out), length); break;
          case ChainStep::reflected: kernel.binary(static_cast<Binary>(s.step), number, a, at(s.out), length); break;
          case ChainStep::table: kernel.table(reinterpret_cast<const std::uint16_t*>(s.values), a.row, at(s.out), length); break;
        }
      }
    }
  });
}

}  // namespace tessera
