// Preloaded in tests of several ranks, which share few cores with each other and with other tests: ranks that poll take
// these from ranks that compute. Open MPI calls sched_yield() between polls (mpi_yield_when_idle), and since Linux 6.18
// one that yields gives away all that it could run, again and again, so that beside computing processes it hardly runs
// at all. A rank that sleeps for a moment costs nothing and is woken in time: the longer it has waited, the longer the
// moment, for polls of a long wait cost as much as work.
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>

static long nanoseconds(const struct timespec* from, const struct timespec* to) {
  return (to->tv_sec - from->tv_sec) * 1000000000L + to->tv_nsec - from->tv_nsec;
}

int sched_yield(void) {
  enum { kPolls = 20, kOtherWork = 30000, kLeast = 20000, kMost = 500000 };  // a short wait is over in so many polls
  static __thread struct timespec begin, last;
  static __thread int polls;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (nanoseconds(&last, &now) > kOtherWork) polls = 0, begin = now;
  if (++polls > kPolls) {
    const long quarter = nanoseconds(&begin, &now) / 4;
    const struct timespec moment = {.tv_nsec = quarter < kLeast ? kLeast : quarter > kMost ? kMost : quarter};
    nanosleep(&moment, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
  }
  last = now;
  return 0;
}
