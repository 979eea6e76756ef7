// A trained model on disk: HDF5 with /parameters/<layer>/<weight|bias|...> and /state/<layer>/<...>, one array per part
// of a layer, channels-last and float32, and the configuration that made it (the attribute "config", or a data set of
// that name where it is longer than an attribute may be); a checksum is behind it. Portable between backends and
// resolutions of the same network.
#pragma once

#include <string>
#include <vector>

#include "io/checksummed_file.hpp"
#include "layers/model.hpp"
#include "layers/network.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// One part of a layer and its place in the arena of its kind.
struct PartPlace {
  std::string name;          ///< "conv1/weight"
  std::vector<Index> shape;  ///< channels-last
  std::size_t first = 0, count = 0;

  template <typename Floats>
  Floats in(Floats arena) const {
    return arena.subspan(first, count);
  }
};

/// In arena order. Moments of an optimizer have the places of the parameters.
std::vector<PartPlace> parameter_places(const Network& network);
std::vector<PartPlace> state_places(const Network& network);

/// Collective; the root's values are written. The file appears whole or not at all.
void save_model(Backend& backend, const std::string& path, const Model& model, const std::string& config_toml,
                Comm& comm);

/// Collective; every rank ends with the same values. A checkpoint's model can be loaded too. Returns whether the file
/// had a checksum: those of earlier versions have none. DataError: the file is damaged, which is seen before HDF5 looks
/// at it; a data set is missing or has another shape.
Checksum load_model(Backend& backend, const std::string& path, Model& model, Comm& comm);

}  // namespace mrmf
