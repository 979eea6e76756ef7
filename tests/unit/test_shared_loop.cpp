// Loops that threads share: every iteration once, own share first, and nobody waits for what another could do.
#include <doctest/doctest.h>
#include <omp.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/cpu/threads.hpp"

using namespace mrmf;

TEST_CASE("a shared loop gives out each iteration once, whichever threads ask") {
  for (const Index count : {0, 1, 7, 64, 1000})
    for (const int threads : {1, 2, 5}) {
      CAPTURE(count);
      CAPTURE(threads);
      cpu::SharedLoop loop(count, threads);
      std::vector<int> times(static_cast<std::size_t>(count));
      for (int turn = 0, idle = 0; idle < threads; turn = (turn * 3 + 1) % 7) {
        const auto run = loop.next(turn % threads);
        idle = run ? 0 : idle + 1;
        for (Index i = run ? run->first : 0; run && i < run->last; ++i) ++times[static_cast<std::size_t>(i)];
      }
      CHECK(std::ranges::all_of(times, [](int n) { return n == 1; }));
    }
}

TEST_CASE("a shared loop begins with the thread's own share and takes others' from the back") {
  cpu::SharedLoop loop(64, 2);  // runs of 2
  CHECK(loop.next(1)->first == 32);
  CHECK(loop.next(0)->first == 0);
  for (int i = 0; i < 15; ++i) CHECK(loop.next(1)->first == 34 + 2 * i);
  CHECK(loop.next(1)->first == 30);
  CHECK(loop.next(1)->last == 30);
  CHECK(loop.next(0)->first == 2);
}

TEST_CASE("threads take over the iterations of one that is held up") {
  constexpr Index count = 320;
  std::atomic<Index> done{0}, held{0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  bool two = false;
  cpu::share_out(count, 2, [&](Index first, Index last, int thread) {
    if (thread == 0) two = omp_get_num_threads() == 2;
    while (thread == 1 && held.load() == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (thread == 0 && held == 0 && omp_get_num_threads() == 2) {  // its first run ends when all others have
      held = last - first;
      while (done.load() < count - held.load() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      CHECK(done.load() == count - held.load());
    }
    done += last - first;
  });
  CHECK(done.load() == count);
  CHECK((held.load() > 0) == two);
}

TEST_CASE("a thread that is through does not wait for ever for one that is held up") {
  cpu::SharedLoop loop(2, 2);
  std::atomic<bool> through{false};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
#pragma omp parallel num_threads(2)
  {
    loop.work(omp_get_thread_num(), [&](Index first, Index) {
      while (omp_get_num_threads() == 2 && first == 1 && !through && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
    });
    through = true;
  }
  CHECK(std::chrono::steady_clock::now() < end);
}

TEST_CASE("sums are kept in several parts a thread while they are small") {
  CHECK(cpu::sum_parts(1, 10) == 1);
  CHECK(cpu::sum_parts(4, 10) == 16);
  CHECK(cpu::sum_parts(4, Index{1} << 18) == 8);
  CHECK(cpu::sum_parts(4, Index{1} << 24) == 4);
}
