// Threads for computing: how many there are, and loops whose iterations they share out.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/errors.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::cpu {

// Threads for computing: whether the system lets this process start them, and how many a parallel region gets.

/// FaultError unless this many threads can be started, or as many of them as OMP_THREAD_LIMIT allows. Call it before
/// OpenMP starts them: when OpenMP fails to, it ends the process with a message of its own.
void require_threads(int wanted);

/// The number of threads that a parallel region gets if this thread starts it now and asks for `wanted`, unless OpenMP
/// may decide by itself (omp_set_dynamic). One inside another region, where oneDNN starts none.
int granted_threads(int wanted);

/// While it lives, the calling thread's parallel regions have granted_threads(wanted) threads. oneDNN's primitives are
/// made for that number and run with it.
///
/// A primitive divides its work among that many threads when it is made. With fewer, some would wait forever: oneDNN's
/// weight gradients on AVX-512 have a barrier for all of them. OpenMP gives fewer inside another parallel region, under
/// OMP_THREAD_LIMIT, and with OMP_DYNAMIC.
class ThreadScope {
 public:
  explicit ThreadScope(int wanted);
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;
  ~ThreadScope();

  int count() const { return count_; }

 private:
  int count_, count_before_, dynamic_before_;
};

// Loops that OpenMP's threads run together, on a machine that others use too.
//
// With equal shares alone, all threads wait for the one whose core another program holds half of the time. So a thread
// that is through with its own share takes over iterations that others have not begun. An iteration must not depend on
// the thread that runs it; sums that do are kept per part of the loop (sum_parts()), not per thread.

/// The iterations [0, count). A thread begins with its own share, which is always the same, so its memory is mostly
/// near. FaultError for more than most_iterations.
class SharedLoop {
 public:
  struct Run {
    Index first, last;  ///< [first, last)
  };
  /// Runs of a share, where it has as many iterations: the others wait for one run of a slow thread at most.
  static constexpr Index kRuns = 16;
  static constexpr Index most_iterations = 0xffffffff;

  SharedLoop(Index count, int threads)
      : most_(std::max<Index>(1, count / (kRuns * threads))), shares_(static_cast<std::size_t>(threads)) {
    MRMF_CHECK(count <= most_iterations, "a loop has too many iterations to share out one by one");
    for (Index t = 0; t < threads; ++t)
      shares_[static_cast<std::size_t>(t)].left = packed({count * t / threads, count * (t + 1) / threads});
  }

  /// What this thread is to do next: the front of its own share, then the back of another's. Nothing when all are
  /// begun.
  std::optional<Run> next(int thread) {
    const auto own = static_cast<std::size_t>(thread);
    if (const auto run = take<true>(shares_[own])) return run;
    for (std::size_t i = 1; i < shares_.size(); ++i)
      if (const auto run = take<false>(shares_[(own + i) % shares_.size()])) return run;
    return std::nullopt;
  }

  /// What a thread of a parallel region does: body(first, last) for runs until all are begun. A barrier should follow.
  /// There a thread soon sleeps, and waking it takes as long as a short loop. So it first waits awake for the others:
  /// for about one of its own runs, at most 200 us; not if it had none, or others compute in its place.
  template <class Body>
  void work(int thread, const Body& body) {
    const Clock::time_point began = Clock::now();
    Index runs = 0;
    for (; const auto run = next(thread); ++runs) body(run->first, run->last);
    wait(runs > 0 ? (Clock::now() - began) / runs : Clock::duration::zero());
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct alignas(64) Share {
    std::atomic<std::uint64_t> left;  // begin and end of what nobody has begun
  };
  void wait(Clock::duration of_run);

  static constexpr std::uint64_t packed(const Run& run) {
    return static_cast<std::uint64_t>(run.first) << 32U | static_cast<std::uint64_t>(run.last);
  }

  template <bool kFront>
  std::optional<Run> take(Share& share) const {
    std::uint64_t left = share.left.load(std::memory_order_relaxed);
    while (true) {
      const Index first = static_cast<Index>(left >> 32U), last = static_cast<Index>(left & 0xffffffffU);
      if (first >= last) return std::nullopt;
      const Index count = std::min(most_, last - first);
      const Run run = kFront ? Run{first, first + count} : Run{last - count, last};
      const std::uint64_t rest = packed(kFront ? Run{run.last, last} : Run{first, run.first});
      if (share.left.compare_exchange_weak(left, rest, std::memory_order_relaxed)) return run;
    }
  }

  Index most_;  // iterations of a run
  std::vector<Share> shares_;
  alignas(64) std::atomic<int> through_ = 0;
};

/// Calls body(first, last, thread) on runs that together are [0, count), on at most so many threads.
template <class Body>
void share_out(Index count, int threads, const Body& body) {
  if (threads == 1 || count <= 1) return count > 0 ? body(Index{0}, count, 0) : void();
  const Index together = count / SharedLoop::most_iterations + 1;  // iterations that are given out as one
  SharedLoop loop((count + together - 1) / together, threads);
#pragma omp parallel num_threads(threads)
  {
    const int thread = omp_get_thread_num();
    loop.work(thread,
              [&](Index first, Index last) { body(first * together, std::min(last * together, count), thread); });
  }
}

/// How many parts a loop is cut into whose iterations add to sums of `numbers` values: each part has sums of its own,
/// which are added in their order, so the result depends on the number of threads alone. One thread has one part.
/// Several parts a thread, while their sums are small, let others take over what a slow thread has not begun. A
/// SharedLoop over parts has them one by one.
/// most_numbers: of a thread's parts together, at least one part.
inline Index sum_parts(int threads, Index numbers, Index most_numbers = Index{1} << 19) {
  constexpr Index most_parts = 4;
  static_assert(most_parts <= SharedLoop::kRuns);
  if (threads == 1) return 1;
  return threads * std::clamp<Index>(most_numbers / std::max<Index>(1, numbers), 1, most_parts);
}

// Pieces of long arrays, which threads share.

constexpr Index kPiece = 8192;  // so few floats that a few pieces fit the L1 cache together
constexpr Index pieces_of(Index total) { return (total + kPiece - 1) / kPiece; }

/// Calls body(first, count) on pieces of [0, total): whole cache lines, mostly the same piece for the same thread.
template <class Body>
void for_ranges(Index total, const Body& body) {
  share_out(pieces_of(total), omp_get_max_threads(), [&](Index first, Index last, int) {
    for (Index p = first; p < last; ++p) body(p * kPiece, std::min(kPiece, total - p * kPiece));
  });
}

}  // namespace mrmf::cpu
