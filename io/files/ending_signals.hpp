// The signals by which terminals and batch systems end a program; each does so by default.
#pragma once

#include <array>
#include <csignal>

namespace mrmf {

inline constexpr std::array kEndingSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

}  // namespace mrmf
