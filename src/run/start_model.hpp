// model.start: a model that begins with the parameters and state of another one, layer by layer where name and shapes
// fit.
#pragma once

#include <string>
#include <vector>

#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// What a start gives to a network.
struct StartLayers {
  std::string file;                  ///< file of the model
  std::vector<std::size_t> taken;    ///< layers of the network, by position
  std::vector<std::string> lines{};  ///< for the log: which are taken, which are new and why, what is left unused
};

/// Looks what model.start has for this network. Collective; reads no values. ConfigError when there is no such file or
/// finished run, when it lies in this run's own folder, or when no layer fits; DataError when it is damaged.
StartLayers match_start_layers(const Config& config, const Network& network, Comm& comm);

/// Gives the layers their values, on every rank. Collective.
void take_start(Backend& backend, const StartLayers& start, Model& model, Comm& comm);

}  // namespace mrmf
