// Files of trained models, and models that begin with the weights of such a file (model.start), layer by layer where
// name and shapes fit.
#include "src/run/model_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/output.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"
#include "src/run/checkpoint_arrays.hpp"
#include "src/run/records_and_train_state.hpp"

namespace mrmf {
namespace {

// `cut`: the first parts; empty: none is.
void add(std::vector<TensorSpan>& tensors, const Network& network, std::size_t layer,
         const std::vector<NamedTensor>& parts, Index first,
         const std::vector<ParameterLayout::PartitionedTensor>& cut = {}) {
  const Index begin = first;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const PartitionedWeights* const own = k < cut.size() ? cut[k].cut : nullptr;
    const Index count = own != nullptr ? cut[k].own.count : parts[k].count();
    tensors.push_back({layer, network.entry(layer).name + "/" + parts[k].name, parts[k].shape,
                       static_cast<std::size_t>(first), static_cast<std::size_t>(count), own});
    first += count;
    if (k + 1 == cut.size()) first = begin + aligned(first - begin);
  }
}

constexpr const char* kModelFormat = "mrmf model 1";

// Calls visit(data set name, the tensor, its values) for every tensor of every layer.
template <typename AnyModel, typename Visit>
void for_each_tensor(AnyModel& model, const Visit& visit) {
  for (const TensorSpan& part : parameter_spans(model.network(), model.layout()))
    visit("parameters/" + part.name, part, part.in(model.params()));
  for (const TensorSpan& part : state_spans(model.network())) visit("state/" + part.name, part, part.in(model.state()));
}

void write_texts(Hdf5Output& file, const Model& model, const ModelTexts& texts) {
  file.write_attribute("format", kModelFormat);
  file.write_attribute("sample", to_string(model.network().input()));
  constexpr std::size_t most = 60000;  // the most of an attribute, with room for its header
  if (texts.config.size() < most)
    file.write_attribute("config", texts.config);
  else
    file.write_text("config", texts.config);
  if (!texts.epoch.empty()) file.write_attribute("epoch", texts.epoch);
}

// Whole weights of which each rank of the group has some; on the root alone. Collective over the group.
std::vector<float> gather_whole(Backend& backend, const TensorSpan& part, ConstSpan values, Comm* sample_group,
                                bool root) {
  MRMF_CHECK(sample_group != nullptr, "weights that are cut over no ranks");
  std::vector<float> own(values.size()), whole(root ? part.whole() : 0);
  backend.read(values, own);
  gather(*part.cut, own, *sample_group, whole);
  return whole;
}

// Before HDF5 opens the file. The same on every rank.
Checksum require_whole(const std::string& path, Comm& comm) {
  std::int64_t checksum = 0;
  collective_try(comm, [&] {
    if (comm.root()) checksum = static_cast<std::int64_t>(verify(path));
  });
  comm.broadcast(std::span(&checksum, 1), 0);
  if (static_cast<Checksum>(checksum) == Checksum::wrong)
    throw DataError(path +
                    ": damaged or cut short: it does not end with the checksum of what it holds; restore it from a "
                    "copy, or train again");
  return static_cast<Checksum>(checksum);
}

// Otherwise a run would silently compute without data for which this model has no place. Checkpoints hold more than a
// model.
void require_nothing_else(const std::string& path, const Network& network) {
  std::set<std::string> expected;
  for (const TensorSpan& part : parameter_spans(network)) expected.insert("parameters/" + part.name);
  for (const TensorSpan& part : state_spans(network)) expected.insert("state/" + part.name);
  for (const std::string& name : all_datasets(path))
    if ((name.starts_with("parameters/") || name.starts_with("state/")) && !expected.contains(name))
      throw DataError(path + ": data set " + name +
                      " is of no layer of this model; was it trained with another network?");
}

}  // namespace

std::size_t TensorSpan::whole() const { return cut != nullptr ? static_cast<std::size_t>(cut->whole.count()) : count; }

void TensorSpan::write(Backend& backend, ConstSpan all, Span to) const {
  if (cut == nullptr) return backend.write(all, to);
  std::vector<float> own(count);
  cut->take(all, own);
  backend.write(own, to);
}

std::vector<TensorSpan> parameter_spans(const Network& network, const ParameterLayout& layout) {
  std::vector<TensorSpan> tensors;
  for (std::size_t i = 0; i < network.size(); ++i)
    add(tensors, network, i, network.entry(i).footprint.params, layout.params_of(i).first,
        layout.partitioned_tensors(i));
  return tensors;
}

std::vector<TensorSpan> parameter_spans(const Network& network) {
  return parameter_spans(network, ParameterLayout(network));
}

std::vector<TensorSpan> state_spans(const Network& network) {
  std::vector<TensorSpan> tensors;
  for (std::size_t i = 0; i < network.size(); ++i)
    add(tensors, network, i, network.entry(i).footprint.state, network.entry(i).state.first);
  return tensors;
}

double parameter_count(const Network& network) {
  double count = 0;
  for (const TensorSpan& tensor : parameter_spans(network)) count += static_cast<double>(tensor.count);
  return count;
}

std::string last_model_path(const std::string& run) {
  return (std::filesystem::path(run) / "checkpoints" / "final.h5").string();
}

std::string best_model_path(const std::string& run) {
  return (std::filesystem::path(run) / "checkpoints" / "best.h5").string();
}

std::string model_path(const std::string& run, WhichEpoch which) {
  std::error_code none;
  const std::string best = best_model_path(run);
  return which == WhichEpoch::best && std::filesystem::exists(best, none) ? best : last_model_path(run);
}

// One rank writes alone, so that nobody waits in a collective call of MPI-IO, which has no time limit.
void save_model(Backend& backend, const std::string& path, const Model& model, const ModelTexts& texts, Comm& comm,
                Replace replace, Comm* sample_group) {
  std::optional<Hdf5Output> file;  // on the root
  const auto on_root = [&](const auto& action) {
    collective_try(comm, [&] {
      if (comm.root()) action();
    });
  };
  on_root([&] {
    file.emplace(path, replace, Comm::self(), Hdf5Output::End::checksum);
    std::size_t floats = 0;
    for_each_tensor(model, [&](const std::string&, const TensorSpan& part, ConstSpan) { floats += part.whole(); });
    file->reserve(floats * sizeof(float));
    write_texts(*file, model, texts);
  });
  for_each_tensor(model, [&](const std::string& name, const TensorSpan& part, ConstSpan values) {
    std::vector<float> whole;
    if (part.cut != nullptr) whole = gather_whole(backend, part, values, sample_group, comm.root());
    on_root([&] {
      write_parts(*file, name, part.shape, part.whole(), [&](std::size_t first, Span some) {
        if (part.cut != nullptr)
          std::ranges::copy(std::span(whole).subspan(first, some.size()), some.begin());
        else
          backend.read(values.subspan(first, some.size()), some);
      });
    });
  });
  on_root([&] { file->commit(); });
}

Hdf5File open_model(const std::string& path, Comm& comm, Checksum& checksum) {
  checksum = require_whole(path, comm);
  Hdf5File file = Hdf5File::open(path, comm);
  const std::string format = file.read_attribute("format");
  if (format != kModelFormat && format != kCheckpointFormat)
    throw DataError(path + ": not a model written by mrmf (attribute \"format\" is not \"" + kModelFormat + "\")");
  return file;
}

void read_parts(const StoredArray& from, Comm& comm, const std::function<void(ConstSpan, std::size_t)>& use) {
  const Index rows = from.shape.front();
  std::size_t row = 1;
  for (std::size_t a = 1; a < from.shape.size(); ++a) row *= static_cast<std::size_t>(from.shape[a]);
  const Index most =
      from.at_once ? rows : static_cast<Index>(std::max<std::size_t>(1, kFloatsAtOnce / std::max<std::size_t>(1, row)));
  std::vector<float> some;
  for (Index first = 0; row > 0 && first < rows; first += most) {
    const Index count = std::min(most, rows - first);
    some.resize(static_cast<std::size_t>(count) * row);
    collective_try(comm, [&] {
      if (comm.root()) from.file->read_rows(from.name, first, count, some);
    });
    comm.broadcast(some, 0);
    use(some, static_cast<std::size_t>(first) * row);
  }
}

namespace {

// All at once of weights that are cut. Collective.
void read_tensor(Backend& backend, const Hdf5File& file, const std::string& name, const TensorSpan& part, Span values,
                 Comm& comm) {
  read_parts({&file, name, part.shape, part.cut != nullptr}, comm, [&](ConstSpan some, std::size_t first) {
    if (part.cut != nullptr)
      part.write(backend, some, values);
    else
      backend.write(some, values.subspan(first, some.size()));
  });
}

}  // namespace

Checksum load_model(Backend& backend, const std::string& path, Model& model, Comm& comm) {
  Checksum checksum{};
  const Hdf5File file = open_model(path, comm, checksum);
  const checkpoint::Blocks blocks =
      checkpoint::blocks_from_json(file.has(checkpoint::kBlocks) ? file.read_text(checkpoint::kBlocks) : "", path);
  for_each_tensor(model, [&](const std::string& name, const TensorSpan& part, Span values) {
    if (const auto found = blocks.arrays.find(name); found != blocks.arrays.end()) {
      if (found->second.count() != static_cast<Index>(part.whole()))
        throw DataError(path + ": " + name + " has another shape than this model's layer");
      std::vector<float> host;
      collective_try(comm,
                     [&] { host = checkpoint::read_box(path, blocks, name, {.count = found->second.positions}); });
      return part.write(backend, host, values);
    }
    const DatasetInfo info = file.info(name);
    if (info.shape != part.shape)
      throw DataError(path + ": data set " + name + " has another shape than this model's layer; was it " +
                      "trained with another network or resolution?");
    read_tensor(backend, file, name, part, values, comm);
  });
  collective_try(comm, [&] {
    if (comm.root()) require_nothing_else(path, model.network());
  });
  return checksum;
}

void require_finite(Backend& backend, const Model& model, const std::string& file) {
  for_each_tensor(model, [&](const std::string& name, const TensorSpan&, ConstSpan values) {
    std::vector<float> host(values.size());
    backend.read(values, host);
    if (!std::ranges::all_of(host, [](float w) { return std::isfinite(w); }))
      throw DataError(
          fmt::format("{}: data set '{}' holds NaN or an infinity: this model cannot compute; train it again, or "
                      "restore the file from a copy",
                      file, name));
  });
}

ModelFacts read_model_facts(const std::string& path, Comm& comm) {
  Checksum checksum{};
  const Hdf5File file = open_model(path, comm, checksum);
  ModelFacts facts;
  facts.checkpoint = file.read_attribute("format") == kCheckpointFormat;
  facts.sample = file.read_attribute("sample");
  facts.config = file.read_attribute("config");
  if (facts.config.empty() && file.has("config")) facts.config = file.read_text("config");
  return facts;
}

void gather(const PartitionedWeights& cut, ConstSpan own, Comm& sample_group, Span all) {
  MRMF_CHECK(std::ssize(cut.boxes) == sample_group.size() && cut.rank == sample_group.rank(),
             "weights that another group cuts");
  for (int rank = 0; rank < sample_group.size(); ++rank) {
    std::vector<float> values(static_cast<std::size_t>(cut.count(rank)));
    if (rank == sample_group.rank()) std::ranges::copy(own, values.begin());
    sample_group.broadcast(values, rank);
    if (!all.empty()) cut.put(rank, values, all);
  }
}

std::vector<float> WholeWeights::read(ConstSpan arena) const {
  std::vector<float> own(arena.size());
  backend.read(arena, own);
  if (layout.partitioned().empty()) return own;
  std::vector<float> all(static_cast<std::size_t>(network.params_size()));
  for (std::size_t i = 0; i < network.size(); ++i) {
    const Span here = span_at(own, layout.params_of(i)), there = span_at(all, network.entry(i).params);
    const std::vector<ParameterLayout::PartitionedTensor> parts = layout.partitioned_tensors(i);
    if (parts.empty()) {
      std::ranges::copy(here, there.begin());
      continue;
    }
    MRMF_CHECK(sample_group != nullptr, "weights that are cut over no ranks");
    for (const ParameterLayout::PartitionedTensor& part : parts)
      gather(*part.cut, span_at(here, part.own), *sample_group, span_at(there, part.whole));
    const Span rest = here.subspan(static_cast<std::size_t>(layout.behind_partitioned(i)));
    std::ranges::copy(rest, there.last(rest.size()).begin());
  }
  return all;
}

void WholeWeights::write(ConstSpan all, Span arena) const {
  if (layout.partitioned().empty()) return backend.write(all, arena);
  std::vector<float> own(arena.size());
  for (std::size_t i = 0; i < network.size(); ++i) {
    const ArenaSpan& span = network.entry(i).params;
    layout.take(i, all.subspan(static_cast<std::size_t>(span.first), static_cast<std::size_t>(span.count)),
                span_at(own, layout.params_of(i)));
  }
  backend.write(own, arena);
}

// model.start: a model that begins with the weights of another one, layer by layer where name and shapes fit. Declared
// in model_file.hpp.

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
                      "); finish that run, or name one of its checkpoints (checkpoints/phase-<n>.h5)");
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
