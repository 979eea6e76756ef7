#include "mpi/rendezvous.hpp"

#include <chrono>
#include <thread>

namespace mrmf {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Waits for at most a second, without spinning.
bool done_soon(PendingSum& sum) {
  for (const Clock::time_point start = Clock::now(); since(start) < 1;) {
    if (sum.test()) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return false;
}

}  // namespace

Rendezvous::Rendezvous(const Comm& world) : world_(world.duplicate()) {
  world_.limit(0);
  world_.sum_reproducibly(false);  // a sum in fixed point could not run beside other calls
}

double Rendezvous::sum_when_all_arrive(std::span<float> values, Comm& team) {
  const Clock::time_point start = Clock::now();
  for (PendingSum sum = world_.start_sum(values); team.any(!done_soon(sum));) {
  }
  return since(start);
}

}  // namespace mrmf
