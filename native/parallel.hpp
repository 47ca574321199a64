// The one thread pool of the native part.
//
// The number of threads comes with each call (Python passes torch.get_num_threads()), so the pool obeys the same knob
// as torch. A call made while the pool is busy (two Python threads, or a kernel inside a kernel) runs on its own
// thread: correct, and never a deadlock. Workers are started when first needed and are forgotten by a forked child.
#pragma once

#include <cstddef>
#include <type_traits>

namespace tessera {

using RangeFunction = void (*)(void* context, std::size_t begin, std::size_t end);

// Calls function on disjoint ranges that cover [0, count), each of at least `grain` items (the last may be shorter).
void parallel_for_raw(std::size_t count, std::size_t grain, int threads, RangeFunction function, void* context);

// The same for a callable (begin, end); it must not throw.
template <class Body>
inline void parallel_for(std::size_t count, std::size_t grain, int threads, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  parallel_for_raw(
      count, grain, threads,
      [](void* context, std::size_t begin, std::size_t end) { (*static_cast<Plain*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace tessera
