#include "src/simulators/neuron/simulate.hpp"

#include <fmt/format.h>
#include <omp.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "generated/version.hpp"
#include "io/hdf5/output.hpp"
#include "kernels/random.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "src/simulators/split_files_and_random_fields.hpp"

namespace mrmf::neuron {
namespace {

constexpr double kStart = 20, kEnd = 140;  // ms
constexpr std::array kSpikes{23.0, 28.2, 34.4, 55.1, 61.4, 82.2, 93.2, 104.8, 125.4, 132.2};

// The oscillation `since` ms after the last spike.
double slow_part(double since) {
  const double amplitude = std::min(0.72, 0.12 + 0.055 * since);
  return -0.62 + amplitude * std::cos(2 * std::numbers::pi * since / 4.6 + 0.9 * std::numbers::pi);
}

// A spike is higher the longer the oscillation had time to grow.
double spike(double from_peak, double gap) {
  const double height = std::min(6.7, 5.75 + 0.08 * gap);
  return height * std::exp(-from_peak * from_peak / (2 * 0.62 * 0.62));
}

double value(double t) {
  if (t < kStart || t >= kEnd) return 0;
  double last = kStart, sum = 0, before = kStart - 4;
  for (const double peak : kSpikes) {
    if (t >= peak) last = peak;
    sum += spike(t - peak, peak - before);
    before = peak;
  }
  return sum + slow_part(t - last);
}

}  // namespace

std::vector<double> stimulus() {
  std::vector<double> trace(kStimulusValues);
  for (int i = 0; i < kStimulusValues; ++i) trace[static_cast<std::size_t>(i)] = value(i * kStimulusStep);
  return trace;
}

std::vector<double> midpoint_current(std::span<const double> trace, double dt, int steps) {
  std::vector<double> current(static_cast<std::size_t>(steps));
  for (int i = 0; i < steps; ++i) {
    const double x = (i + 0.5) * dt / kStimulusStep;
    const auto left = std::min(static_cast<std::size_t>(x), trace.size() - 1);
    const auto right = std::min(left + 1, trace.size() - 1);
    const double share = x - static_cast<double>(left);
    current[static_cast<std::size_t>(i)] = trace[left] + share * (trace[right] - trace[left]);
  }
  return current;
}

}  // namespace mrmf::neuron

namespace mrmf {

void check(const NeuronSimulation& s) {
  const auto refuse = [](const std::string& what) { throw ConfigError("simulate neuron: " + what); };
  if (s.file.empty()) refuse("no file to write is named; give --output FILE");
  if (s.samples < 1) refuse(fmt::format("{} samples asked for; at least 1 per split is needed", s.samples));
  if (s.cells < 1) refuse(fmt::format("{} cells asked for; at least 1 is needed", s.cells));
  if (s.samples < s.cells)
    refuse(fmt::format("{} samples are fewer than {} cells; ask for more samples or fewer cells", s.samples, s.cells));
  if (s.threads < 0) refuse(fmt::format("{} threads asked for; 0 means as many as OpenMP has", s.threads));
  check_splits("simulate neuron", s.samples, {s.train, s.validation, s.test});
}

}  // namespace mrmf

namespace mrmf::neuron {
namespace {

constexpr std::uint64_t kOrderStream = 0x6F72646572;  // apart from every sample's stream

constexpr std::size_t kMoments = 2;

}  // namespace

FileSplits splits(const NeuronSimulation& settings) {
  return file_splits(settings.samples, {settings.train, settings.validation, settings.test});
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

/// Up to eight samples of one cell.
struct Recorder::Batch {
  int cell = 0;
  std::span<const std::size_t> members;  // indices into origins, frames and labels
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

namespace mrmf::neuron {
namespace {

using Json = nlohmann::ordered_json;

Json describe(const Cell& cell, const CellScale& scale) {
  Json probes = Json::array();
  for (std::size_t p = 0; p < kProbes; ++p) {
    const Compartment& c = cell.compartments[static_cast<std::size_t>(cell.probes[p])];
    probes.push_back({{"section", cell.sections[static_cast<std::size_t>(c.section)].name},
                      {"distance_um", c.distance},
                      {"mean_mV", scale[p].mean},
                      {"deviation_mV", scale[p].deviation}});
  }
  return {{"name", cell.name}, {"type", name(cell.type)}, {"probes", probes}};
}

// The text of meta.JSON.
std::string metadata(const NeuronSimulation& settings, const Recorder& recorder, const std::vector<CellScale>& scales) {
  Json meta;
  Json names = Json::array(), cells = Json::array(), labels = Json::array(), conductances = Json::array();
  for (int i = 0; i < settings.cells; ++i) {
    const Cell& cell = recorder.cell(i);
    names.push_back(cell.name);
    cells.push_back(describe(cell, scales[static_cast<std::size_t>(i)]));
  }
  for (std::size_t k = 0; k < kLabels; ++k) {
    const Parameter& p = parameters()[k];
    labels.push_back(p.name);
    conductances.push_back(Json::array({k, p.name, centre(p), half_width(p)}));
  }
  const auto parts = splits(settings);
  meta["cellNameList"] = names;
  meta["h5name"] = std::filesystem::path(settings.file).filename().string();
  meta["numInpFiles"] = settings.cells;
  meta["parName"] = labels;
  meta["probeName"] = {"soma", "axon", "dend"};
  meta["conductName"] = conductances;
  meta["numTimeBin"] = kBins;
  meta["numFeature"] = kProbes;
  meta["numPar"] = kLabels;
  meta["globalTrainSamples"] = parts[0].rows.count;
  for (const FileSplit& split : parts) meta["numSamples"][split.name] = split.rows.count;
  meta["seed"] = settings.seed;
  meta["timeStep_ms"] = kTimeStep;
  meta["binWidth_ms"] = kTimeStep * kStepsPerBin;
  meta["normalisationSamplesPerCell"] = kNormalisationSamples;
  meta["cells"] = cells;
  meta["program"] = std::string("mrmf ") + kVersion;
  return meta.dump(-1, ' ', false, Json::error_handler_t::replace);  // a file's name may not be UTF-8
}

}  // namespace
}  // namespace mrmf::neuron

namespace mrmf {
namespace {

using namespace neuron;

constexpr Index kBlock = 2048;  // samples simulated, then written
constexpr const char *kFrameData = "frames", *kLabelData = "unitStar_par";

/// Frames and labels of several samples.
struct Samples {
  std::vector<Origin> origins;
  std::vector<float> frames, labels;

  explicit Samples(std::vector<Origin> of)
      : origins(std::move(of)), frames(origins.size() * kFrame), labels(origins.size() * kLabels) {}
  std::span<float> frame(std::size_t i) { return std::span(frames).subspan(i * kFrame, kFrame); }
  std::span<float> label(std::size_t i) { return std::span(labels).subspan(i * kLabels, kLabels); }
};

/// One rank's part of the data set.
class Share {
 public:
  Share(const NeuronSimulation& settings, Comm& comm)
      : settings_(settings),
        comm_(comm),
        rows_(piece(settings.samples, comm.rank(), comm.size())),
        order_(settings),
        recorder_(settings.cells, settings.seed, settings.threads),
        early_({}) {}

  /// Simulates and keeps the samples that the normalisation needs.
  void normalise_cells() {
    Normalisation normalisation(settings_);
    collective_try(comm_, [&] {
      std::vector<Origin> wanted;
      for (Index row = rows_.first; row < rows_.first + rows_.count; ++row)
        if (Normalisation::counts(order_[row])) wanted.push_back(order_[row]);
      early_ = Samples(std::move(wanted));
      std::vector<std::size_t> all(early_.origins.size());
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
      simulate(early_, all);
      for (std::size_t i = 0; i < early_.origins.size(); ++i) normalisation.add(early_.origins[i], early_.frame(i));
    });
    scales_ = normalisation.finish(comm_);
  }

  void write(Hdf5Output& file, const ProgressFunction& progress) {
    const auto make_and_write = [&](const Range& block) {
      const Samples samples = make(block);
      write_rows(file, splits(settings_), kFrameData, block, samples.frames);
      write_rows(file, splits(settings_), kLabelData, block, samples.labels);
    };
    for_each_block(comm_, settings_.samples, kBlock, make_and_write, progress);
  }

  std::string metadata() const { return neuron::metadata(settings_, recorder_, scales_); }
  Index spiking() const { return spiking_; }

 private:
  void simulate(Samples& samples, const std::vector<std::size_t>& which) {
    std::vector<Origin> origins;
    std::vector<float*> frames, labels;
    for (const std::size_t i : which) {
      origins.push_back(samples.origins[i]);
      frames.push_back(samples.frame(i).data());
      labels.push_back(samples.label(i).data());
    }
    spiking_ += recorder_.record(origins, frames, labels);
  }

  // Makes a block of normalised rows. Samples that the normalisation has already simulated are taken over in row order.
  Samples make(const Range& block) {
    std::vector<Origin> origins;
    for (Index row = block.first; row < block.first + block.count; ++row) origins.push_back(order_[row]);
    Samples samples(std::move(origins));
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < samples.origins.size(); ++i) {
      if (!Normalisation::counts(samples.origins[i])) {
        missing.push_back(i);
        continue;
      }
      std::ranges::copy(early_.frame(early_used_), samples.frame(i).begin());
      std::ranges::copy(early_.label(early_used_), samples.label(i).begin());
      ++early_used_;
    }
    simulate(samples, missing);
    for (std::size_t i = 0; i < samples.origins.size(); ++i)
      normalise(samples.frame(i), scales_[static_cast<std::size_t>(samples.origins[i].cell)]);
    return samples;
  }

  const NeuronSimulation& settings_;
  Comm& comm_;
  Range rows_;
  RowOrder order_;
  Recorder recorder_;
  Samples early_;
  std::size_t early_used_ = 0;
  std::vector<CellScale> scales_;
  Index spiking_ = 0;
};

}  // namespace

NeuronReport simulate_neuron(const NeuronSimulation& settings, Comm& comm, const ProgressFunction& progress) {
  check(settings);
  const Timer timer;
  Hdf5Output file(settings.file, settings.replace, comm);
  create_datasets(file, splits(settings), {{kFrameData, {kBins, kProbes}}, {kLabelData, {kLabels}}});
  Share share(settings, comm);
  share.normalise_cells();
  share.write(file, progress);
  file.write_text("meta.JSON", share.metadata());
  file.commit();

  NeuronReport report;
  report.samples = settings.samples;
  report.seconds = comm.max(timer.seconds());
  report.samples_per_second = static_cast<double>(settings.samples) / report.seconds;
  report.spiking_share = comm.sum(static_cast<double>(share.spiking())) / static_cast<double>(settings.samples);
  return report;
}

}  // namespace mrmf
