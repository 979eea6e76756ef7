// What a data set of a file that the program wrote holds.
#pragma once

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "io/hdf5/file.hpp"

namespace mrmf::test {

/// All of its values, row by row.
inline std::vector<float> read_floats(const Hdf5File& file, const std::string& name) {
  const DatasetInfo info = file.info(name);
  const Index count = std::accumulate(info.shape.begin(), info.shape.end(), Index{1}, std::multiplies<>());
  std::vector<float> values(static_cast<std::size_t>(count));
  file.read_rows(name, 0, info.rows(), values);
  return values;
}

}  // namespace mrmf::test
