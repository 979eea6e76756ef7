#include "mpi/rendezvous.hpp"

#include <chrono>
#include <thread>

#include "kernels/timer.hpp"

namespace mrmf {
namespace {

// Waits for at most a second, without spinning.
bool done_soon(PendingSum& sum) {
  for (const Timer timer; timer.seconds() < 1;) {
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
  const Timer timer;
  for (PendingSum sum = world_.start_sum(values); team.any(!done_soon(sum));) {
  }
  return timer.seconds();
}

}  // namespace mrmf
