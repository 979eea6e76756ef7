#include "io/unfinished_files.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>

namespace mrmf {
namespace {

// A signal's handler sees nothing but the process's own memory, and may take no lock and no memory: hence a table of
// fixed size, the only one of its kind.
struct Place {
  std::atomic<bool> taken{false}, watched{false};
  std::array<char, PATH_MAX> path{};
};
std::array<Place, 8> table;

constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

void remove_all_and_end(int signal) {
  remove_unfinished_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Only where a signal would end the process by itself.
void watch_signals() {
  for (const int signal : kEnding) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL)
      continue;
    struct sigaction ours {};
    ours.sa_handler = remove_all_and_end;
    ::sigaction(signal, &ours, nullptr);
  }
}

}  // namespace

void remove_unfinished_files() {
  for (const Place& place : table)
    if (place.watched.load()) ::unlink(place.path.data());
}

UnfinishedFile::UnfinishedFile(const std::string& path) {
  if (path.size() >= PATH_MAX) return;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].taken.exchange(true)) continue;
    std::memcpy(table[i].path.data(), path.c_str(), path.size() + 1);
    table[i].watched.store(true);
    place_ = static_cast<int>(i);
    watch_signals();
    return;
  }
}

UnfinishedFile::~UnfinishedFile() {
  if (place_ < 0) return;
  Place& place = table[static_cast<std::size_t>(place_)];
  place.watched.store(false);
  place.taken.store(false);
}

}  // namespace mrmf
