// model.start: a model that begins with the weights of another one, layer by layer where name and shapes fit. Declared
// in model_file.hpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "io/files/input_file.hpp"
#include "io/hdf5/file.hpp"
#include "kernels/errors.hpp"
#include "src/run/checkpoint_arrays.hpp"
#include "src/run/model_file.hpp"
#include "src/run/records.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

std::string file_of(const std::string& start) {
  std::error_code none;
  const fs::path whole = fs::absolute(start, none).lexically_normal();
  if (!fs::exists(start, none))
    throw ConfigError("model.start: " + start + ": there is no such run folder or model file (looked for " +
                      whole.string() + "); give the path from here, or the whole path");
  if (!fs::is_directory(start, none)) return start;
  std::string model = model_path(start, WhichEpoch::best);
  if (!is_there(model))
    throw ConfigError("model.start: " + start + ": holds no model of a finished run (there is no " + model +
                      "); finish that run, or name one of its checkpoints (checkpoints/step-<n>.h5)");
  return model;
}

// A run that begins anew removes its folder's models.
void require_elsewhere(const std::string& file, const std::string& folder) {
  std::error_code none;
  const fs::path own = fs::weakly_canonical(folder, none), it = fs::weakly_canonical(file, none);
  if (std::mismatch(own.begin(), own.end(), it.begin(), it.end()).first == own.end())
    throw ConfigError("model.start: " + file +
                      " lies in run.folder, where this run writes; set another folder, or continue that run: mrmf "
                      "train --continue " +
                      folder);
}

/// A layer's data set in a model file.
struct StoredTensor {
  std::string name;          ///< "parameters/conv1/weight"
  std::string part;          ///< "weight"
  std::vector<Index> shape;  ///< in memory, of the whole
  TensorSpan span;           ///< in the arena of its kind
  bool state = false;
};

std::vector<StoredTensor> tensors_of(const Network& network, const ParameterLayout& layout, std::size_t layer) {
  std::vector<StoredTensor> parts;
  const auto add = [&](const std::string& group, const std::vector<TensorSpan>& tensors, bool state) {
    for (const TensorSpan& tensor : tensors)
      if (tensor.layer == layer)
        parts.push_back(
            {group + tensor.name, tensor.name.substr(tensor.name.rfind('/') + 1), tensor.shape, tensor, state});
  };
  add("parameters/", parameter_spans(network, layout), false);
  add("state/", state_spans(network), true);
  return parts;
}

// The rows of a part in a checkpoint of a run with batch_norm = "local", where every rank has statistics of its own; 0:
// there are no such rows.
Index rank_rows(const std::vector<Index>& shape, const StoredTensor& part) {
  const bool rows = part.state && shape.size() == part.shape.size() + 1 && shape.front() > 0;
  return rows && std::equal(shape.begin() + 1, shape.end(), part.shape.begin()) ? shape.front() : 0;
}

// A part's values: of every rank's statistics their mean, as at the end of an epoch.
void read_part(const Hdf5File& file, const StoredTensor& part, Span values) {
  const Index rows = rank_rows(file.info(part.name).shape, part);
  if (rows == 0) return file.read_rows(part.name, 0, part.shape.front(), values);
  std::vector<double> sums(values.size());
  for (Index row = 0; row < rows; ++row) {
    file.read_rows(part.name, row, 1, values);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  for (std::size_t i = 0; i < sums.size(); ++i) values[i] = static_cast<float>(sums[i] / static_cast<double>(rows));
}

// Why a layer cannot be taken; empty: it can.
std::string misfit(const Hdf5File& file, const std::vector<StoredTensor>& parts) {
  const auto there = [&](const StoredTensor& part) { return file.has(part.name); };
  if (std::ranges::none_of(parts, there)) return "not there";
  for (const StoredTensor& part : parts) {
    if (!there(part)) return part.part + " is not there";
    const std::vector<Index> shape = file.info(part.name).shape;
    if (shape != part.shape && rank_rows(shape, part) == 0)
      return fmt::format("{} is ({}) there and ({}) here", part.part, fmt::join(shape, ", "),
                         fmt::join(part.shape, ", "));
  }
  return "";
}

// Layers of the file that this network does not have.
std::vector<std::string> unused(const std::string& path, const Network& network) {
  std::set<std::string> names;
  for (const std::string& name : all_datasets(path))
    if (const std::string group = "parameters/"; name.starts_with(group))
      names.insert(name.substr(group.size(), name.find('/', group.size()) - group.size()));
  for (const LayerEntry& entry : network.entries()) names.erase(entry.name);
  return {names.begin(), names.end()};
}

// "runs/first/checkpoints/best.h5 (epoch 5 of 12)": a model file, and its epoch where it knows.
std::string with_epoch(const std::string& path, const Hdf5File& file) {
  const std::string text = file.read_attribute("epoch");
  if (text.empty()) return path;
  const ModelNote note = note_from_json(text, path);
  return fmt::format("{} (epoch {} of {})", path, note.epoch, note.epochs);
}

}  // namespace

StartLayers match_start_layers(const Config& config, const Network& network, Comm& comm) {
  StartLayers start;
  collective_try(comm, [&] {
    start.file = file_of(config.model.start);
    require_elsewhere(start.file, config.run.folder);
  });
  Checksum checksum{};
  const Hdf5File file = open_model(start.file, comm, checksum);
  if (file.has(checkpoint::kBlocks))
    throw ConfigError("model.start: " + start.file +
                      " has its untied weights in files of blocks; name the run's folder when it is done, or a model "
                      "file");
  const ParameterLayout whole(network);
  std::vector<std::string> taken, fresh;
  for (std::size_t i = 0; i < network.size(); ++i) {
    const LayerEntry& entry = network.entry(i);
    const std::vector<StoredTensor> parts = tensors_of(network, whole, i);
    if (parts.empty()) continue;
    if (const std::string why = misfit(file, parts); !why.empty()) {
      fresh.push_back(entry.name + " (" + why + ")");
      continue;
    }
    taken.push_back(entry.name);
    start.taken.push_back(i);
  }
  if (taken.empty())
    throw ConfigError(
        fmt::format("model.start: {} has no layer that fits this model: {}; layers need the same name and "
                    "shapes",
                    start.file, fmt::join(fresh, ", ")));
  const std::string from = with_epoch(start.file, file);
  start.lines.push_back(fresh.empty() ? fmt::format("start: all {} layers from {}", taken.size(), from)
                                      : fmt::format("start: {} gives {}", from, fmt::join(taken, ", ")));
  if (!fresh.empty()) start.lines.push_back(fmt::format("start: new are {}", fmt::join(fresh, ", ")));
  std::vector<std::string> left;
  collective_try(comm, [&] { left = unused(start.file, network); });
  if (!left.empty()) start.lines.push_back(fmt::format("start: not used of it: {}", fmt::join(left, ", ")));
  return start;
}

void take_start(Backend& backend, const StartLayers& start, Model& model, Comm& comm) {
  Checksum checksum{};
  const Hdf5File file = open_model(start.file, comm, checksum);
  for (const std::size_t i : start.taken)
    for (const StoredTensor& part : tensors_of(model.network(), model.layout(), i)) {
      std::vector<float> values(part.span.whole());
      collective_try(comm, [&] {
        if (comm.root()) read_part(file, part, values);
      });
      comm.broadcast(values, 0);
      part.span.write(backend, values, part.span.in(part.state ? model.state() : model.params()));
    }
}

}  // namespace mrmf
