#include "src/simulators/neuron/recorder.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "src/simulators/neuron/stimulus.hpp"

namespace mrmf::neuron {

/// Up to eight samples of one cell.
struct Recorder::Batch {
  int cell = 0;
  std::span<const std::size_t> members;  // positions in origins, frames and labels
  std::span<const Origin> origins;
  std::span<float*const> frames, labels;
};

Recorder::Recorder(int cells, std::uint64_t seed, int threads)
    : seed_(seed), threads_(threads > 0 ? threads : omp_get_max_threads()) {
  const auto tables = std::make_shared<GateTables>(kTimeStep);
  const std::vector<double> current = midpoint_current(stimulus(), kTimeStep, kBins * kStepsPerBin);
  for (int i = 0; i < cells; ++i) cables_.emplace_back(make_cell(i), tables, current, kStepsPerBin);
}

Index Recorder::run(const Batch& batch, CableWork& work) const {
  const Cable& cable = cables_[static_cast<std::size_t>(batch.cell)];
  const auto varied = parameters();
  std::array<Conductances, kSamples> g;
  for (std::size_t s = 0; s < batch.members.size(); ++s) {
    const std::size_t at = batch.members[s];
    const auto u = draw_exponents(seed_, batch.origins[at]);
    g[s] = scaled(cable.cell().base, u);
    for (std::size_t k = 0; k < kLabels; ++k) {
      const double base = cable.cell().base.at(varied[k].region, varied[k].channel);
      batch.labels[at][k] = static_cast<float>(label_of(varied[k], base, u[k]));
    }
  }
  cable.run(std::span(g).first(batch.members.size()), work);
  Index spiking = 0;
  for (std::size_t s = 0; s < batch.members.size(); ++s) {
    float* frame = batch.frames[batch.members[s]];
    for (std::size_t i = 0; i < work.bins.size(); ++i) frame[i] = work.bins[i].value[s];
    spiking += work.peak.value[s] > kSpikeLevel ? 1 : 0;
  }
  return spiking;
}

Index Recorder::record(std::span<const Origin> origins, std::span<float* const> frames,
                       std::span<float* const> labels) const {
  std::vector<std::size_t> by_cell(origins.size());
  std::iota(by_cell.begin(), by_cell.end(), std::size_t{0});
  std::stable_sort(by_cell.begin(), by_cell.end(),
                   [&](std::size_t a, std::size_t b) { return origins[a].cell < origins[b].cell; });
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < by_cell.size();) {
    const int cell = origins[by_cell[i]].cell;
    std::size_t end = i + 1;
    while (end < by_cell.size() && end - i < kSamples && origins[by_cell[end]].cell == cell) ++end;
    batches.push_back({cell, std::span(by_cell).subspan(i, end - i), origins, frames, labels});
    i = end;
  }
  Index spiking = 0;
#pragma omp parallel num_threads(threads_) reduction(+ : spiking)
  {
    CableWork work;
#pragma omp for schedule(dynamic)
    for (std::size_t b = 0; b < batches.size(); ++b) spiking += run(batches[b], work);
  }
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (!std::all_of(frames[i], frames[i] + kFrame, [](float x) { return std::isfinite(x); }))
      throw FaultError(fmt::format("simulate neuron: sample {} of cell {} has a potential that is not finite (seed {})",
                                   origins[i].sample, cell(origins[i].cell).name, seed_));
  }
  return spiking;
}

}  // namespace mrmf::neuron
