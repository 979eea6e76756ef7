// Numbers that have no logarithm, where data.normalise asks for one: found by file and row.
#pragma once

#include "io/dataset.hpp"
#include "kernels/tensor.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/data/channel_facts.hpp"

namespace mrmf {

/// What a message needs to say where a sample or label without logarithm is.
struct LogarithmLocation {
  const DatasetSpec& spec;
  const DatasetShape& shape;
  NumbersOf of = NumbersOf::samples;
  Index sample = 0;  ///< within the whole data set
};

/// DataError: file, data set and row of this sample, and what data.normalise takes of it.
[[noreturn]] void refuse_logarithm(const LogarithmLocation& place);

/// Checks every sample and label, at full resolution, of which data.normalise takes log(1 + x); reads nothing else.
/// DataError, the same on all ranks, for the first number of a rank that is not above -1. Collective.
void require_logarithms(const DataConfig& data, const DatasetSpec& spec, const DatasetShape& shape, Comm& comm);

}  // namespace mrmf
