#include "src/simulators/neuron/metadata.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "generated/version.hpp"

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

}  // namespace

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
  for (const Split& split : parts) meta["numSamples"][split.name] = split.rows.count;
  meta["seed"] = settings.seed;
  meta["timeStep_ms"] = kTimeStep;
  meta["binWidth_ms"] = kTimeStep * kStepsPerBin;
  meta["normalisationSamplesPerCell"] = kNormalisationSamples;
  meta["cells"] = cells;
  meta["program"] = std::string("mrmf ") + kVersion;
  return meta.dump(-1, ' ', false, Json::error_handler_t::replace);  // a file's name may be no UTF-8
}

}  // namespace mrmf::neuron
