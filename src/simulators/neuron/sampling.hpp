// Which sample is in which row, and what is drawn for it: pure functions of the settings.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "io/order.hpp"
#include "src/simulators/neuron/conductances.hpp"
#include "src/simulators/neuron/simulate.hpp"

namespace mrmf::neuron {

struct Split {
  const char* name;  ///< as data sets are called: train, val, test
  Range rows;        ///< of all rows of the file, the three splits one after another
};

/// Sizes are rounded; what rounding leaves over goes to the training split.
std::array<Split, 3> splits(const NeuronSimulation& settings);

/// A row's origin: sample `sample` of cell `cell`.
struct Origin {
  int cell;
  Index sample;
};

/// Rows of all splits in their shuffled order.
class RowOrder {
 public:
  explicit RowOrder(const NeuronSimulation& settings);
  Origin operator[](Index row) const;

 private:
  int cells_;
  std::vector<std::int64_t> ids_;
};

/// The exponents of a sample's conductances, uniform in [-1, 1).
std::array<double, kParameters> draw_exponents(std::uint64_t seed, const Origin& origin);

}  // namespace mrmf::neuron
