// `mrmf bench io`: how fast samples come out of the files, beside a plain read of the same bytes.
#pragma once

#include <iosfwd>
#include <string>

#include "io/output_option.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

struct BenchIo {
  Config config;      ///< data, batch, resolution of the last step of the plan
  int rounds = 1;     ///< medians are printed
  OutputOption json;  ///< for the figures
};

/// Collective. Each rank takes its part of the training samples through the loader as training does, streamed, twice:
/// once from the disk (the operating system's copies of the files are dropped before, as far as it lets us) and once
/// with what the first epoch left in memory. Beside both, read(2) of the same bytes from front to back.
/// Prints GB/s over all ranks and their ratios; the last line is JSON. read(2) counts the files' bytes, the loader the
/// samples' as they are unpacked: of compressed files, or of files that hold more, that is not the same.
void bench_io(const BenchIo& bench, Comm& world, std::ostream& out);

}  // namespace mrmf
