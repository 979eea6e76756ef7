// Files of trained models (model_file_and_pretrained_weights.cpp), and models that begin with the weights of such a
// file (model_file_and_pretrained_weights.cpp).
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/output.hpp"
#include "kernels/backend.hpp"
#include "layers/memory_layout.hpp"
#include "layers/model.hpp"
#include "layers/network.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

// Files of trained models. HDF5 with /parameters/<layer>/<weight|bias|...> and /state/<layer>/<...>: one array per part
// of a layer, channels-last and float32. The configuration that made the model is the attribute "config", or a data set
// of that name if it is longer than an attribute may be; "sample" is the shape of the network's input, and "epoch" says
// of which epoch it is. A checksum follows. Portable between backends and resolutions of the same network. And
// whole weights, where ranks of a grid have parts of them.

/// The format of files that have more in them than a model's.
inline constexpr const char* kCheckpointFormat = "mrmf checkpoint 1";

/// One tensor of a layer and its span in the arena of its kind.
struct TensorSpan {
  std::size_t layer = 0;     ///< in the network's list
  std::string name;          ///< "conv1/weight"
  std::vector<Index> shape;  ///< channels-last
  std::size_t first = 0, count = 0;
  const PartitionedWeights* cut = nullptr;  ///< the span has this rank's columns of such a part; null: all of it

  template <typename Floats>
  Floats in(Floats arena) const {
    return arena.subspan(first, count);
  }
  std::size_t whole() const;  ///< floats of the part on all ranks
  /// Writes this rank's own of the tensor's whole values to `to`, its span in an arena.
  void write(Backend& backend, ConstSpan all, Span to) const;
};

/// In arena order. An optimizer's moments have the spans of the parameters. The layout is that of a rank's arenas,
/// which its weights' spans refer to; without one, whole parameters are meant.
std::vector<TensorSpan> parameter_spans(const Network& network, const ParameterLayout& layout);
std::vector<TensorSpan> parameter_spans(const Network& network);
std::vector<TensorSpan> state_spans(const Network& network);
/// Floats of a tensor that saving and loading have in the host's memory at once, where this rank has all of it.
inline constexpr std::size_t kFloatsAtOnce = std::size_t{1} << 22;

/// Makes a data set of so many values and writes them part by part: read(number of the first, some) gives them.
template <typename Read>
void write_parts(Hdf5Output& file, const std::string& name, const std::vector<Index>& shape, std::size_t count,
                 const Read& read) {
  file.create_dataset(name, shape);
  std::vector<float> some;
  for (std::size_t first = 0; first < count; first += some.size()) {
    some.resize(std::min(kFloatsAtOnce, count - first));
    read(first, Span(some));
    file.write_values(name, static_cast<Index>(first), some);
  }
}
/// A stored array of this shape, whose file is open on the root alone.
struct StoredArray {
  const Hdf5File* file;
  const std::string& name;
  const std::vector<Index>& shape;
  bool at_once = false;  ///< is wanted whole, whatever it takes
};
/// Reads it part by part for all ranks: use(some values, number of the first). Collective.
void read_parts(const StoredArray& from, Comm& comm, const std::function<void(ConstSpan, std::size_t)>& use);
/// Numbers of all parameters.
double parameter_count(const Network& network);

/// What a model's file says of it, as attributes.
struct ModelTexts {
  std::string config;      ///< TOML: what made the model
  std::string epoch = {};  ///< JSON of a ModelNote (src/run/records_and_train_state.hpp); empty: it is not known
};

/// Collective; writes the root's values. The file appears whole or not at all. `sample_group`: the ranks that share a
/// sample where these cut the model's weights.
void save_model(Backend& backend, const std::string& path, const Model& model, const ModelTexts& texts, Comm& comm,
                Replace replace = Replace::file, Comm* sample_group = nullptr);

/// What a model file says beside its numbers.
struct ModelFacts {
  std::string config;       ///< TOML
  std::string sample;       ///< shape of the network's input, such as "1600x3"; "" in files of earlier versions
  bool checkpoint = false;  ///< whether it is the checkpoint of a run under way
};

/// Collective; the same on every rank. DataError when the file is damaged, or is not a model.
ModelFacts read_model_facts(const std::string& path, Comm& comm);

/// Collective: opens a model's or a checkpoint's file. DataError when it is damaged, which is noticed before HDF5 reads
/// it, or something else. `checksum` tells whether it had one, which those of earlier versions lack.
Hdf5File open_model(const std::string& path, Comm& comm, Checksum& checksum);

/// Which of a finished run's models is meant.
enum class WhichEpoch { best, last };
/// Where a run keeps the model of its last epoch, and the best one where that is another.
std::string last_model_path(const std::string& run);
std::string best_model_path(const std::string& run);
/// The one of these files with the epoch that is meant. Without a best one, which earlier versions did not keep, the
/// last one's. It may not be there: the run is then not done.
std::string model_path(const std::string& run, WhichEpoch which);

/// Collective; every rank ends with the same values. A checkpoint's model can be loaded too. Returns whether the file
/// had a checksum, which those of earlier versions lack. DataError when the file is damaged, which is noticed before
/// HDF5 reads it, or when a data set is missing or has another shape.
Checksum load_model(Backend& backend, const std::string& path, Model& model, Comm& comm);

/// DataError, with the data set of `file`, when a parameter or a statistic is NaN or infinite. Needs no agreement
/// between ranks: all have the same values.
void require_finite(Backend& backend, const Model& model, const std::string& file);

// Whole weights of the layers whose weights are cut over the ranks of a grid (layers/memory_layout.hpp): what a
// checkpoint and a model's file hold, and what a fusion computes with.

/// Puts the ranks' weights together, on every rank of the group. Collective over it. In the host's memory.
void gather(const PartitionedWeights& cut, ConstSpan own, Comm& sample_group, Span all);

/// The arenas of a model, and the ranks of a sample: null where no weights are cut.
struct WholeWeights {
  Backend& backend;
  const Network& network;
  const ParameterLayout& layout;
  Comm* sample_group = nullptr;

  /// The whole of an arena of parameters, gradients or moments, in the host's memory, laid out as the network's own.
  /// Collective over the group.
  std::vector<float> read(ConstSpan arena) const;
  /// Gives the arena its own of such values.
  void write(ConstSpan all, Span arena) const;
};

// model.start: a model that begins with the parameters and state of another one, layer by layer where name and shapes
// fit.

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
