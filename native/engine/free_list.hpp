// Which bytes of a bank are free: first fit from either end. The same choices as memory/free_list.py, which explains them; free blocks
// are filed by address and, by size, in classes each twice as large as the one before.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>

namespace tessera {

class FreeList {
 public:
  struct Live {
    std::uint64_t size;
    void* owner;  // a Python object or null; the wrapper counts references
  };

  FreeList(std::uint64_t base, std::uint64_t size) : base(base), size(size) {
    if (size) insert(base, base + size);
  }

  std::uint64_t base, size, allocated = 0, peak = 0;
  std::unordered_map<std::uint64_t, Live> live;

  const std::map<std::uint64_t, std::uint64_t>& holes() const { return holes_; }

  // False when no free block is large enough.
  bool take(std::uint64_t wanted, bool top_down, std::uint64_t& address) {
    const int own = class_of(wanted);
    bool found = false;
    std::uint64_t start = 0;
    for (std::uint64_t larger = own >= 63 ? 0 : used_ >> (own + 1) << (own + 1); larger; larger &= larger - 1) {
      const auto& blocks = classes_[__builtin_ctzll(larger)];
      const std::uint64_t here = top_down ? *blocks.rbegin() : *blocks.begin();
      if (!found || (top_down ? here > start : here < start)) start = here, found = true;
    }
    if (used_ >> own & 1) {
      const auto& blocks = classes_[own];
      const auto wins = [&](std::uint64_t here) {  // 0: go on, 1: this one, 2: nothing better comes
        if (found && (top_down ? here < start : here > start)) return 2;
        return holes_.find(here)->second - here >= wanted ? 1 : 0;
      };
      const auto look = [&](auto at, auto end) {
        for (; at != end; ++at) {
          const int answer = wins(*at);
          if (answer == 1) start = *at, found = true;
          if (answer) return;
        }
      };
      if (top_down) {
        look(blocks.rbegin(), blocks.rend());
      } else {
        look(blocks.begin(), blocks.end());
      }
    }
    if (!found) return false;
    const std::uint64_t end = holes_.find(start)->second;
    remove(start, end);
    address = top_down ? end - wanted : start;
    if (start < address) insert(start, address);
    if (address + wanted < end) insert(address + wanted, end);
    live.emplace(address, Live{wanted, nullptr});
    allocated += wanted;
    if (allocated > peak) peak = allocated;
    return true;
  }

  // False when no block lives there.
  bool give(std::uint64_t address, Live& was) {
    const auto found = live.find(address);
    if (found == live.end()) return false;
    was = found->second;
    live.erase(found);
    allocated -= was.size;
    std::uint64_t start = address, end = address + was.size;
    const auto after = holes_.lower_bound(start);
    const std::uint64_t next_start = after != holes_.end() ? after->first : 0, next_end = after != holes_.end() ? after->second : 0;
    if (after != holes_.begin()) {
      const auto before = std::prev(after);
      if (before->second == start) {
        start = before->first;
        remove(start, before->second);
      }
    }
    if (next_end && next_start == end) {
      end = next_end;
      remove(next_start, next_end);
    }
    insert(start, end);
    return true;
  }

  // Moves the lower end of the range; false, and nothing changes, if a live block is in the way.
  bool shrink_to(std::uint64_t new_base) {
    const std::uint64_t top = base + size;
    std::uint64_t lowest = top;
    for (const auto& block : live) lowest = block.first < lowest ? block.first : lowest;
    if (lowest < new_base && !live.empty()) return false;
    const auto hole = holes_.find(base);
    if (hole != holes_.end() && hole->second == lowest) remove(base, lowest);
    base = new_base, size = top - new_base;
    if (base < lowest) insert(base, lowest);
    return true;
  }

  std::uint64_t largest() const {
    if (!used_) return 0;
    std::uint64_t best = 0;
    for (std::uint64_t start : classes_[63 - __builtin_clzll(used_)]) {
      const std::uint64_t room = holes_.find(start)->second - start;
      best = room > best ? room : best;
    }
    return best;
  }

 private:
  static int class_of(std::uint64_t room) { return room ? 63 - __builtin_clzll(room) : 0; }

  void insert(std::uint64_t start, std::uint64_t end) {
    const int index = class_of(end - start);
    classes_[index].insert(start);
    used_ |= std::uint64_t{1} << index;
    holes_.emplace(start, end);
  }

  void remove(std::uint64_t start, std::uint64_t end) {
    const int index = class_of(end - start);
    classes_[index].erase(start);
    if (classes_[index].empty()) used_ &= ~(std::uint64_t{1} << index);
    holes_.erase(start);
  }

  std::map<std::uint64_t, std::uint64_t> holes_;  // start -> end
  std::set<std::uint64_t> classes_[64];
  std::uint64_t used_ = 0;  // bit i: class i is not empty
};

}  // namespace tessera
