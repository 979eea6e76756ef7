#include "tests/unit/backends.hpp"

#include <cmath>

namespace mrmf::test {

std::vector<std::unique_ptr<Backend>> backends() {
  std::vector<std::unique_ptr<Backend>> list;
  list.push_back(make_reference_backend());
  list.push_back(make_onednn_backend(2));
  return list;
}

double relative_distance(ConstSpan a, ConstSpan b) {
  MRMF_CHECK(a.size() == b.size(), "compared spans have equal length");
  double distance = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    distance += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(norm == 0 ? distance : distance / norm);
}

std::vector<float> uniform(Rng& rng, std::size_t count, double low, double high) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.uniform(low, high));
  return values;
}

}  // namespace mrmf::test
