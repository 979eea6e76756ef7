// Preloaded by a test: a process hangs as soon as it gets SIGRTMIN, with all that other threads do going on. It is not
// stopped, which everybody could see.
#include <unistd.h>

#include <csignal>

namespace {

extern "C" void hang(int) {
  for (;;) pause();
}

struct Prepared {
  Prepared() { std::signal(SIGRTMIN, hang); }
};
const Prepared prepared;

}  // namespace
