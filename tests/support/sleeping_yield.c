// Preloaded in tests of several ranks, which share few cores with each other and with other tests: ranks that poll take
// these from ranks that compute. Open MPI calls sched_yield() between polls (mpi_yield_when_idle), and since Linux 6.18
// one that yields gives away all that it could run, again and again, so that beside computing processes it hardly runs
// at all. A rank that sleeps for a moment costs nothing and is woken in time.
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>

int sched_yield(void) {
  enum { kPolls = 20, kOtherWork = 30000, kMoment = 20000 };  // a short wait is over in so many polls; nanoseconds
  static __thread struct timespec last;
  static __thread int polls;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if ((now.tv_sec - last.tv_sec) * 1000000000L + now.tv_nsec - last.tv_nsec > kOtherWork) polls = 0;
  if (++polls > kPolls) {
    const struct timespec moment = {.tv_nsec = kMoment};
    nanosleep(&moment, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
  }
  last = now;
  return 0;
}
