#include "src/simulators/neuron/samples.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace mrmf::neuron {
namespace {

constexpr std::size_t kMoments = 2;

}  // namespace

Normalisation::Normalisation(const NeuronSimulation& settings)
    : cells_(settings.cells),
      samples_(std::min(kNormalisationSamples, (settings.samples + settings.cells - 1) / settings.cells)),
      sums_(static_cast<std::size_t>(cells_ * samples_) * kProbes * kMoments) {}

std::size_t Normalisation::at(Index cell, Index sample, int probe) const {
  return static_cast<std::size_t>((cell * samples_ + sample) * kProbes + probe) * kMoments;
}

void Normalisation::add(const Origin& origin, std::span<const float> frame) {
  for (int p = 0; p < kProbes; ++p) {
    double sum = 0, squares = 0;
    for (std::size_t i = static_cast<std::size_t>(p); i < frame.size(); i += kProbes) {
      const auto x = static_cast<double>(frame[i]);
      sum += x;
      squares += x * x;
    }
    const std::size_t to = at(origin.cell, origin.sample, p);
    sums_[to] = sum;
    sums_[to + 1] = squares;
  }
}

std::vector<CellScale> Normalisation::finish(Comm& comm) {
  comm.sum(std::span(sums_));
  std::vector<CellScale> scales(static_cast<std::size_t>(cells_));
  for (int cell = 0; cell < cells_; ++cell) {
    for (int p = 0; p < kProbes; ++p) {
      double sum = 0, squares = 0, count = 0;
      for (Index s = 0; s < samples_; ++s) {
        const std::size_t from = at(cell, s, p);
        sum += sums_[from];
        squares += sums_[from + 1];
        count += sums_[from + 1] > 0 ? kBins : 0;  // a cell may have one sample fewer than others
      }
      const double mean = sum / count;
      scales[static_cast<std::size_t>(cell)][static_cast<std::size_t>(p)] = {
          mean, std::sqrt(std::max(squares / count - mean * mean, 1e-12))};
    }
  }
  return scales;
}

void normalise(std::span<float> frame, const CellScale& scale) {
  for (std::size_t i = 0; i < frame.size(); ++i) {
    const ProbeScale& s = scale[i % kProbes];
    frame[i] = static_cast<float>((static_cast<double>(frame[i]) - s.mean) / s.deviation);
  }
}

}  // namespace mrmf::neuron
