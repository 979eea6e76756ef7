#include "src/bench_tools.hpp"

#include <algorithm>
#include <fstream>

#include "kernels/random.hpp"

namespace mrmf {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void write_json(const std::string& file, const std::string& text) {
  if (file.empty()) return;
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) throw ConfigError("--json " + file + ": cannot be written");
}

void fill_normal(Span values, std::uint64_t seed) {
  Rng rng(seed);
  for (float& value : values) value = static_cast<float>(rng.normal());
}

}  // namespace mrmf
