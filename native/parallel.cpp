#include "parallel.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace tessera {
namespace {

constexpr int MAX_THREADS = 256;

// How often a thread looks for work, or for the end of it, before it sleeps: some tens of microseconds. Waking a sleeper
// costs as much as a small job takes.
constexpr int LOOKS = 4000;

inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// One job at a time: ranges are handed out from an atomic cursor; the caller works along, closes the job when no range is
// left, and waits for those who are still at one. A worker that wakes too late finds the job closed and holds nobody up.
class Pool {
 public:
  bool try_run(std::size_t count, std::size_t step, int threads, RangeFunction function, void* context) {
    std::unique_lock<std::mutex> busy(job_mutex_, std::try_to_lock);
    if (!busy.owns_lock()) return false;
    start_workers(threads - 1);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      count_ = count, step_ = step, function_ = function, context_ = context;
      cursor_.store(0, std::memory_order_relaxed);
      helpers_ = std::min(threads - 1, started_);
      open_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    work();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      open_ = false;
    }
    for (int look = 0; look < LOOKS && working_.load(std::memory_order_acquire); ++look) pause_briefly();
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return working_.load(std::memory_order_relaxed) == 0; });
    return true;
  }

 private:
  void start_workers(int wanted) {
    try {
      for (; started_ < std::min(wanted, MAX_THREADS); ++started_) {
        std::thread([this, index = started_, seen = generation_.load()] { serve(index, seen); }).detach();
      }
    } catch (const std::system_error&) {
      // The process may start no more threads: go on with those there are.
    }
  }

  void serve(int index, unsigned long seen) {
    for (;;) {
      for (int look = 0; look < LOOKS && generation_.load(std::memory_order_acquire) == seen; ++look) pause_briefly();
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load(std::memory_order_relaxed) != seen; });
        seen = generation_.load(std::memory_order_relaxed);
        if (!open_ || index >= helpers_) continue;
        working_.fetch_add(1, std::memory_order_relaxed);
      }
      work();
      std::lock_guard<std::mutex> lock(mutex_);
      if (working_.fetch_sub(1, std::memory_order_release) == 1) done_.notify_one();
    }
  }

  void work() {
    for (;;) {
      const std::size_t begin = cursor_.fetch_add(step_, std::memory_order_relaxed);
      if (begin >= count_) return;
      function_(context_, begin, std::min(begin + step_, count_));
    }
  }

  std::mutex job_mutex_, mutex_;
  std::condition_variable wake_, done_;
  std::atomic<std::size_t> cursor_{0};
  std::size_t count_ = 0, step_ = 1;
  RangeFunction function_ = nullptr;
  void* context_ = nullptr;
  int started_ = 0, helpers_ = 0;
  bool open_ = false;
  std::atomic<int> working_{0};
  std::atomic<unsigned long> generation_{0};
};

// Never destroyed: workers may still be waiting on it while the interpreter goes down. A forked child has none of its
// parent's workers and perhaps a locked mutex, so it begins with a new pool.
std::atomic<Pool*>& instance() {
  static std::atomic<Pool*> pool = [] {
    pthread_atfork(nullptr, nullptr, [] { instance().store(new Pool); });
    return new Pool;
  }();
  return pool;
}

}  // namespace

void parallel_for_raw(std::size_t count, std::size_t grain, int threads, RangeFunction function, void* context) {
  if (count == 0) return;
  grain = std::max<std::size_t>(grain, 1);
  const std::size_t pieces = (count + grain - 1) / grain;
  threads = static_cast<int>(std::min<std::size_t>(pieces, std::max(threads, 1)));
  if (threads > 1) {
    // About four ranges a thread even out unequal speeds; ranges stay multiples of the grain.
    const std::size_t ranges = std::min<std::size_t>(pieces, static_cast<std::size_t>(threads) * 4);
    const std::size_t step = (pieces + ranges - 1) / ranges * grain;
    if (instance().load()->try_run(count, step, threads, function, context)) return;
  }
  function(context, 0, count);
}

}  // namespace tessera
