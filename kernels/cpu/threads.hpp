// Threads for computing: whether the system lets this process start them, and how many a parallel region gets.
#pragma once

namespace mrmf::cpu {

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

}  // namespace mrmf::cpu
