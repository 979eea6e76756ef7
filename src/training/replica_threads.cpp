#include "src/training/replica_threads.hpp"

#include <omp.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "kernels/errors.hpp"

namespace mrmf {

ReplicaThreads::ReplicaThreads(int size, int at_once) : free_slots_(std::max(at_once, 1)) {
  try {
    for (int i = 0; i < size; ++i) members_.emplace_back([this, i] { live(i); });
  } catch (const std::exception& error) {
    end();
    throw FaultError("cannot start " + std::to_string(size) + " threads, one per own shard (" + error.what() +
                     "); use more ranks or fewer data.shards, or raise the limit on processes and memory (ulimit -u, "
                     "ulimit -v, or the job's)");
  }
}

ReplicaThreads::~ReplicaThreads() { end(); }

void ReplicaThreads::end() {
  {
    const Lock lock(mutex_);
    end_ = true;
  }
  changed_.notify_all();
  for (std::thread& member : members_) member.join();
}

void ReplicaThreads::run(const std::function<void(int)>& job, const std::function<void()>& at_barrier) {
  Lock lock(mutex_);
  job_ = &job;
  done_ = 0;
  ++jobs_;
  changed_.notify_all();
  const int all = static_cast<int>(members_.size());
  while (done_ < all) {
    changed_.wait(lock, [&] { return done_ + waiting_ == all; });
    if (waiting_ == 0) break;
    if (!error_) {
      lock.unlock();
      try {
        at_barrier();
        lock.lock();
      } catch (...) {
        lock.lock();
        fail();
      }
    }
    waiting_ = 0;
    ++barriers_;
    changed_.notify_all();
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ReplicaThreads::barrier() {
  Lock lock(mutex_);
  const int before = barriers_;
  leave_slot();
  ++waiting_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return barriers_ != before; });
  take_slot(lock);
  if (error_) throw FaultError("another part of the same step failed");
}

void ReplicaThreads::live(int member) {
  omp_set_num_threads(1);
  Lock lock(mutex_);
  for (int seen = 0;; ++seen) {
    changed_.wait(lock, [&] { return end_ || jobs_ > seen; });
    if (end_) return;
    take_slot(lock);
    lock.unlock();
    try {
      (*job_)(member);
      lock.lock();
    } catch (...) {
      lock.lock();
      fail();
    }
    leave_slot();
    ++done_;
    changed_.notify_all();
  }
}

void ReplicaThreads::take_slot(Lock& lock) {
  changed_.wait(lock, [&] { return free_slots_ > 0; });
  --free_slots_;
}

void ReplicaThreads::leave_slot() { ++free_slots_; }

void ReplicaThreads::fail() {
  if (!error_) error_ = std::current_exception();
}

}  // namespace mrmf
