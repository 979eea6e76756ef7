#include "src/simulators/neuron/simulate.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generated/version.hpp"
#include "io/hdf5/output.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "src/simulators/neuron/samples.hpp"
#include "src/simulators/split_file.hpp"

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
