#include "src/bench/bench_tools.hpp"

#include <algorithm>

#include "kernels/random.hpp"

namespace mrmf {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void fill_normal(Span values, std::uint64_t seed) {
  constexpr std::size_t period = 1000003;  // enough of them; more would take longer than what is measured
  Rng rng(seed);
  const std::size_t drawn = std::min(values.size(), period);
  for (float& value : values.first(drawn)) value = static_cast<float>(rng.normal());
  for (std::size_t i = drawn; i < values.size(); ++i) values[i] = values[i - period];
}

}  // namespace mrmf
