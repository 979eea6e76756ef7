// Writes what NEURON needs to build the same cells as JSON, with our own traces: export FILE DT SAMPLE...
// where SAMPLE is cell:number. Traces are the probes' potentials (mV) at every step of DT ms.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "src/simulators/neuron/simulate.hpp"
#include "tests/unit/support/neuron_reference.hpp"

namespace {

using namespace mrmf::neuron;
using Json = nlohmann::json;

constexpr std::uint64_t kSeed = 2024;

const char* const kRegionNames[] = {"soma", "axon", "dendrite"};
const char* const kChannelNames[] = {"sodium", "k_tst", "nap", "ca_lva", "sk",       "k_pst", "skv3",
                                     "pas",    "im",    "ca",  "ih",     "stoch_kv", "kd_shu"};

Json describe(const Cell& cell, const Conductances& g) {
  Json out{{"name", cell.name}};
  for (const Section& s : cell.sections)
    out["sections"].push_back({{"name", s.name},
                               {"region", kRegionNames[static_cast<int>(s.region)]},
                               {"parent", s.parent},
                               {"length", s.length},
                               {"diameters", s.diameters},
                               {"distance", s.distance}});
  std::vector<int> first(cell.sections.size(), -1);
  for (int i = 0; i < static_cast<int>(cell.compartments.size()); ++i) {
    int& f = first[static_cast<std::size_t>(cell.compartments[static_cast<std::size_t>(i)].section)];
    if (f < 0) f = i;
  }
  for (const int probe : cell.probes) {
    const int section = cell.compartments[static_cast<std::size_t>(probe)].section;
    out["probes"].push_back({section, probe - first[static_cast<std::size_t>(section)]});
  }
  for (int r = 0; r < kRegions; ++r) {
    Json& region = out["regions"][kRegionNames[r]];
    for (int c = 0; c < kChannelKinds; ++c)
      region[kChannelNames[c]] = g.at(static_cast<Region>(r), static_cast<Channel>(c));
    const auto i = static_cast<std::size_t>(r);
    region["leak_reversal"] = cell.constants.leak_reversal[i];
    region["calcium_decay"] = cell.constants.calcium_decay[i];
    region["calcium_gamma"] = cell.constants.calcium_gamma[i];
  }
  return out;
}

double samples_per_second() {
  constexpr std::size_t kCount = 64;
  const Recorder recorder(kElectricalTypes, kSeed, 1);
  std::vector<Origin> origins;
  std::vector<float> memory(kCount * (kFrame + kLabels));
  std::vector<float*> frames, labels;
  for (std::size_t i = 0; i < kCount; ++i) {
    origins.push_back({static_cast<int>(i % kElectricalTypes), static_cast<mrmf::Index>(i)});
    frames.push_back(memory.data() + i * (kFrame + kLabels));
    labels.push_back(frames.back() + kFrame);
  }
  const auto start = std::chrono::steady_clock::now();
  recorder.record(origins, frames, labels);
  return kCount / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: export FILE DT CELL:SAMPLE...\n";
    return 2;
  }
  const double dt = std::atof(argv[2]);
  Json out{{"dt", dt}, {"duration", kDuration}, {"stimulus", stimulus()}, {"stimulus_step", kStimulusStep}};
  out["samples_per_second"] = samples_per_second();
  for (int i = 3; i < argc; ++i) {
    const std::string name = argv[i];
    const std::size_t colon = name.find(':');
    const Origin origin{std::stoi(name.substr(0, colon)), std::stoi(name.substr(colon + 1))};
    const Cell cell = make_cell(origin.cell);
    const Conductances g = scaled(cell.base, draw_exponents(kSeed, origin));
    Json sample = describe(cell, g);
    sample["cell"] = origin.cell, sample["sample"] = origin.sample;
    sample["trace"] = simulate_trace(cell, g, dt).voltage;
    out["samples"].push_back(sample);
  }
  std::ofstream(argv[1]) << out;
  return 0;
}
