// The command line: every subcommand with its options, declared once.
#pragma once

#include "mpi/comm.hpp"

namespace mrmf {

/// Parses and runs; returns the exit code. Throws what the command throws.
int run_command_line(int argc, char** argv, Comm& world);

}  // namespace mrmf
