// The host that this rank runs on, the ranks that share it, and the program and libraries that run there.
#pragma once

#include <string>

#include "mpi/comm.hpp"

namespace mrmf {

std::string host_name();

/// The ranks that give the same text. Collective.
Comm ranks_of_same(const std::string& text, Comm& world);

/// Bytes of memory that this process may use: the host's memory, or the lowest limit of its control groups (a scheduler
/// sets them for a job).
double host_memory();

struct Machine {
  std::string host, processor;
  int cores = 0;
  double memory_gib = 0;
  bool operator==(const Machine&) const = default;
};
/// This host: /proc/cpuinfo, the cores that this process may use, and the memory that the system reports.
Machine this_machine();

/// How many cores of their host these ranks may use together. A launcher often binds each rank to some of them.
/// Collective. requires: ranks of one host.
int cores_together(Comm& ranks);

struct Versions {
  std::string mrmf, git, compiler, backend, hdf5, mpi;
  bool operator==(const Versions&) const = default;
};
/// `backend` is Backend::description().
Versions these_versions(const std::string& backend);

}  // namespace mrmf
