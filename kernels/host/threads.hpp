// Threads to compute with: whether the system lets this process start them, and how many a parallel region has.
#pragma once

namespace mrmf {

/// FaultError unless so many threads (or as many as OMP_THREAD_LIMIT leaves of them) can be started. To be asked before
/// OpenMP starts them: what it cannot start ends the process with a line of its own.
void require_threads(int wanted);

}  // namespace mrmf

namespace mrmf::onednn {

/// Threads that a parallel region has which this thread starts now and which asks for `wanted`, unless OpenMP may
/// decide by itself (omp_set_dynamic). One inside of another region, where oneDNN starts none.
int granted_threads(int wanted);

/// While it lives, the parallel regions of the calling thread have as many threads as are granted of `wanted`: the
/// number that oneDNN's primitives are made for and run with.
///
/// A primitive shares its work out for so many threads when it is made. With fewer, some wait for ever: oneDNN's weight
/// gradients on AVX-512 have a barrier for all of them. OpenMP gives fewer inside of another parallel region, under
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

}  // namespace mrmf::onednn
