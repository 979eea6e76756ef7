#include "src/simulators/neuron/sampling.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "kernels/random.hpp"

namespace mrmf {

void check(const NeuronSimulation& s) {
  const auto refuse = [](const std::string& what) { throw ConfigError("simulate neuron: " + what); };
  if (s.file.empty()) refuse("no file to write is named; give --output FILE");
  if (s.samples < 1) refuse(fmt::format("{} samples asked for; at least 1 per split is needed", s.samples));
  if (s.cells < 1) refuse(fmt::format("{} cells asked for; at least 1 is needed", s.cells));
  if (s.samples < s.cells)
    refuse(fmt::format("{} samples are fewer than {} cells; ask for more samples or fewer cells", s.samples, s.cells));
  if (s.threads < 0) refuse(fmt::format("{} threads asked for; 0 means as many as OpenMP has", s.threads));
  const double sum = s.train + s.validation + s.test;
  if (!(s.train > 0) || !(s.validation > 0) || !(s.test > 0) || !(std::abs(sum - 1) < 1e-6))
    refuse(fmt::format("the shares {} / {} / {} of training, validation and test must be positive with sum 1", s.train,
                       s.validation, s.test));
  for (const neuron::Split& split : neuron::splits(s))
    if (split.rows.count < 1)
      refuse(fmt::format("{} samples leave none for the split '{}'; ask for more samples", s.samples, split.name));
}

namespace neuron {
namespace {

constexpr std::uint64_t kOrderStream = 0x6F72646572;  // apart from every sample's stream

}  // namespace

std::array<Split, 3> splits(const NeuronSimulation& settings) {
  const auto share = [&](double part) {
    return static_cast<Index>(std::llround(part * static_cast<double>(settings.samples)));
  };
  const Index validation = share(settings.validation), test = share(settings.test);
  const Index train = settings.samples - validation - test;
  return {{{"train", {0, train}}, {"val", {train, validation}}, {"test", {train + validation, test}}}};
}

RowOrder::RowOrder(const NeuronSimulation& settings)
    : cells_(settings.cells), ids_(static_cast<std::size_t>(settings.samples)) {
  std::iota(ids_.begin(), ids_.end(), std::int64_t{0});
  Rng rng(mix(settings.seed, kOrderStream));
  for (std::size_t i = ids_.size(); i > 1; --i) std::swap(ids_[i - 1], ids_[rng.below(i)]);
}

Origin RowOrder::operator[](Index row) const {
  const std::int64_t id = ids_[static_cast<std::size_t>(row)];
  return {static_cast<int>(id % cells_), id / cells_};
}

std::array<double, kParameters> draw_exponents(std::uint64_t seed, const Origin& origin) {
  Rng rng(mix(seed, static_cast<std::uint64_t>(origin.cell) + 1, static_cast<std::uint64_t>(origin.sample)));
  std::array<double, kParameters> u{};
  for (double& x : u) x = rng.uniform(-1, 1);
  return u;
}

}  // namespace neuron
}  // namespace mrmf
