// `mrmf bench`: its options, and which benchmark they ask for.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "mpi/comm.hpp"

namespace mrmf {

/// Adds the subcommand; `command` becomes what it asks for when it is parsed.
void add_bench(CLI::App& app, std::function<void()>& command, Comm& world);

}  // namespace mrmf
