#include "src/run/checkpoint.hpp"
#include "io/checksummed_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "io/hdf5_file.hpp"
#include "io/hdf5_names.hpp"
#include "io/hdf5_output.hpp"
#include "io/input_file.hpp"
#include "io/limits.hpp"
#include "kernels/backend.hpp"
#include "kernels/check.hpp"
#include "layers/network.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/config/toml.hpp"
#include "src/run/continuation.hpp"
#include "src/run/model_file.hpp"
#include "src/run/recorded_data.hpp"
#include "src/run/run_folder.hpp"
#include "src/system/host.hpp"

namespace mrmf {
namespace {

constexpr const char* kFormat = "mrmf checkpoint 1";
constexpr std::size_t kHeaders = 65536, kHeader = 4096;  // generous sizes: of an HDF5 file, and of a data set in it

struct Array {
  std::string name;
  std::vector<Index> shape;
  Span place;                               // in the backend's memory, or
  bool on_host = false;                     // in the host's
  const RowParallelWeights* cut = nullptr;  // the place has this rank's columns
  std::size_t rows = 1;                     // one per rank if ranks differ, or per worker
  std::vector<Span> workers{};              // places of this rank's workers; the rows of the first rank's come first
  std::vector<float> values{};              // whole, on the host, while they are needed

  std::size_t count() const {
    if (!workers.empty()) return workers.front().size();
    return cut != nullptr ? static_cast<std::size_t>(cut->whole.count()) : place.size();
  }
  std::size_t bytes() const { return rows * count() * sizeof(float); }
  void make_room() { values.resize(rows * count()); }
  void read(Backend& backend, std::span<float> to) const {
    on_host ? (void)std::ranges::copy(place, to.begin()) : backend.read(place, to);
  }
  void write(Backend& backend, std::span<const float> from) const {
    on_host ? (void)std::ranges::copy(from, place.begin()) : backend.write(from, place);
  }
  void give_back() { values = std::vector<float>(); }  // assigning {} would keep the memory
  std::span<float> row(int rank) {
    return std::span(values).subspan(rows > 1 ? static_cast<std::size_t>(rank) * count() : 0, count());
  }
};

Array make_array(const std::string& group, const TensorSpan& part, Span arena) {
  Array array{group + part.name, part.shape, part.in(arena)};
  array.cut = part.cut;
  return array;
}

// A row for each worker.
void add_workers(std::vector<Array>& arrays, const SavedArrays& model, const std::string& group,
                 const std::vector<Span>& of) {
  if (of.empty()) return;
  for (const TensorSpan& part : parameter_spans(model.network, model.layout)) {
    Array array{group + part.name, part.shape, {}};
    array.shape.insert(array.shape.begin(), model.workers.all);
    array.rows = static_cast<std::size_t>(model.workers.all);
    for (const Span own : of) array.workers.push_back(part.in(own));
    arrays.push_back(std::move(array));
  }
}

void add_best(std::vector<Array>& arrays, const SavedArrays& model, HostModel& best) {
  for (const TensorSpan& part : parameter_spans(model.network, model.layout))
    arrays.push_back(make_array("best/parameters/", part, best.params)), arrays.back().on_host = true;
  for (const TensorSpan& part : state_spans(model.network))
    arrays.push_back(make_array("best/state/", part, best.state)), arrays.back().on_host = true;
}

std::vector<Array> arrays_of(const SavedArrays& model, StateRows rows, int ranks) {
  const std::vector<TensorSpan> parameters = parameter_spans(model.network, model.layout);
  std::vector<Array> arrays;
  for (const TensorSpan& part : parameters) arrays.push_back(make_array("parameters/", part, model.params));
  add_workers(arrays, model, "moments/1/", model.workers.momenta);
  add_workers(arrays, model, "residuals/", model.workers.residuals);
  for (std::size_t i = model.workers.momenta.empty() ? 0 : 1; i < model.moments.size(); ++i)
    for (const TensorSpan& part : parameters)
      arrays.push_back(make_array(fmt::format("moments/{}/", i + 1), part, model.moments[i]));
  for (const TensorSpan& part : state_spans(model.network)) {
    Array array = make_array("state/", part, model.state);
    if (rows == StateRows::one_per_rank) {
      array.shape.insert(array.shape.begin(), ranks);
      array.rows = static_cast<std::size_t>(ranks);
    }
    arrays.push_back(std::move(array));
  }
  if (model.best != nullptr && !model.best->empty()) add_best(arrays, model, *model.best);
  return arrays;
}

// The root gets every worker's row.
void collect_workers(Backend& backend, Array& array, Comm& team) {
  const int own = static_cast<int>(array.workers.size());
  std::vector<float> row(array.count());
  if (team.root()) array.make_room();
  for (int worker = 0; worker < own * team.size(); ++worker) {
    const int rank = worker / own;
    if (team.rank() == rank) backend.read(array.workers[static_cast<std::size_t>(worker % own)], row);
    if (rank != 0) team.broadcast(row, rank);
    if (team.root()) std::ranges::copy(row, array.row(worker).begin());
  }
}

// Every worker gets its row; of another number of rows than there are workers, their mean, or of residuals its share of
// their sum.
void distribute_workers(Backend& backend, Array& array, Comm& team) {
  const std::size_t own = array.workers.size(), all = own * static_cast<std::size_t>(team.size());
  std::vector<float> row(array.count());
  for (std::size_t worker = 0; array.rows == all && worker < all; ++worker) {
    if (team.root()) std::ranges::copy(array.row(static_cast<int>(worker)), row.begin());
    team.broadcast(row, 0);
    if (static_cast<std::size_t>(team.rank()) == worker / own) backend.write(row, array.workers[worker % own]);
  }
  if (array.rows == all) return;
  const std::size_t parts = array.name.starts_with("residuals/") ? all : array.rows;
  for (std::size_t saved = 0; team.root() && saved < array.rows; ++saved)
    std::ranges::transform(row, array.row(static_cast<int>(saved)), row.begin(),
                           [&](float sum, float value) { return sum + value / static_cast<float>(parts); });
  team.broadcast(row, 0);
  for (const Span worker : array.workers) backend.write(row, worker);
}

// Gathers the values that other ranks than the root have. The root keeps them until they are written.
void collect(Backend& backend, std::vector<Array>& arrays, Comm& team, Comm* sample_group) {
  for (Array& array : arrays) {
    if (array.cut != nullptr) {
      MRMF_CHECK(sample_group != nullptr, "weights that are cut over no ranks");
      std::vector<float> own(array.place.size());
      array.read(backend, own);
      array.make_room();
      gather(*array.cut, own, *sample_group, array.values);
      if (!team.root()) array.give_back();
    }
    if (!array.workers.empty()) collect_workers(backend, array, team);
    if (array.rows == 1 || !array.workers.empty()) continue;
    array.make_room();
    array.read(backend, array.row(team.rank()));
    for (int rank = 0; rank < team.size(); ++rank) team.broadcast(array.row(rank), rank);
  }
}

void distribute(Backend& backend, std::vector<Array>& arrays, Comm& team) {
  for (Array& array : arrays) {
    if (!array.workers.empty()) {
      auto rows = static_cast<std::int64_t>(array.rows);
      team.broadcast(std::span(&rows, 1), 0);
      array.rows = static_cast<std::size_t>(rows);
      distribute_workers(backend, array, team);
      array.give_back();
      continue;
    }
    array.make_room();
    team.broadcast(array.values, 0);
    if (array.cut != nullptr) {
      std::vector<float> own(array.place.size());
      array.cut->take(array.values, own);
      array.write(backend, own);
    } else {
      array.write(backend, array.row(team.rank()));
    }
    array.give_back();
  }
}

// Works array by array. Needs twice the model's size in memory, as a file and as its bytes, which
// src/training/memory_estimate.cpp counts.
std::string image(Backend& backend, const std::string& path, std::vector<Array>& arrays, const CheckpointTexts& texts) {
  std::size_t size = kHeaders + texts.progress.size() + texts.config.size();
  for (const Array& array : arrays) size += kHeader + array.bytes();
  Hdf5Image file(path, size);
  file.write_attribute("format", kFormat);
  for (Array& array : arrays) {
    if (array.values.empty()) {
      array.make_room();
      array.read(backend, array.values);
    }
    file.add(array.name, array.shape, array.values);
    array.give_back();
  }
  file.write_text("progress", texts.progress);
  file.write_text("config", texts.config);
  return file.bytes();
}

void write(Backend& backend, const std::string& path, std::vector<Array>& arrays, const CheckpointTexts& texts) {
  write_checksummed(path, image(backend, path, arrays, texts), Replace::file);
}

[[noreturn]] void damaged(const std::string& what) {
  throw DataError(what +
                  "; restore it from a copy, or remove it to resume from the "
                  "checkpoint before it if there is one, or begin anew with --overwrite");
}

void require_whole(const std::string& path) {
  if (verify(path) != Checksum::right)
    throw DataError(path + ": torn, damaged or no checkpoint: it does not end with the checksum of what it holds");
}

Hdf5File open(const std::string& path) {
  require_whole(path);
  Hdf5File file = Hdf5File::open(path, Comm::self());
  const std::string format = file.read_attribute("format");
  if (format != kFormat)
    throw DataError(fmt::format("{}: its format is \"{}\" and this mrmf reads \"{}\"", path, format, kFormat));
  return file;
}

// Otherwise a run would silently continue without data for which this model has no place.
void require_nothing_else(const std::string& path, const std::vector<Array>& arrays) {
  std::set<std::string> expected{"progress", "config"};
  for (const Array& array : arrays) expected.insert(array.name);
  for (const std::string& name : all_datasets(path))
    if (!expected.contains(name))
      throw DataError(path + ": data set " + name + " is not of this model and its optimizer");
}

void read(const std::string& path, std::vector<Array>& arrays) try {
  const Hdf5File file = open(path);
  for (Array& array : arrays) {
    const std::vector<Index> shape = file.info(array.name).shape;
    if (!array.workers.empty() && shape.size() == array.shape.size() && shape.front() > 0)
      array.rows = static_cast<std::size_t>(array.shape.front() = shape.front());  // of any number of them
    if (shape != array.shape)
      throw DataError(path + ": data set " + array.name + " has another shape than this model's layer");
    array.make_room();
    file.read_rows(array.name, 0, array.shape.front(), array.values);
  }
  require_nothing_else(path, arrays);
} catch (const DataError& error) {
  damaged(error.what());
}

namespace fs = std::filesystem;
using Json = nlohmann::json;

fs::path folder_of(const Config& config) { return fs::path(config.run.folder) / "checkpoints"; }

StateRows rows_of(const Config& config) {
  return config.training.global_batch_norm ? StateRows::one : StateRows::one_per_rank;
}

// Whether this is a phase of the model that goes through the stages; the finest model is fused from its predecessors.
bool leads(const Phase& phase) { return phase.role != Role::dense; }

// Ages of bottom and top. An older file has one number for both.
MomentAges ages_of(const Json& steps) {
  const auto age = [](const Json& json) { return whole_number<std::uint64_t>(json); };
  if (!steps.is_array()) return {age(steps), age(steps)};
  return {age(steps.at(0)), age(steps.at(1))};
}

// A file that cannot be removed does no harm: it is never read again.
void remove(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

}  // namespace

void save_checkpoint(Backend& backend, const std::string& path, const SavedArrays& model, const CheckpointTexts& texts,
                     StateRows rows, Comm& team) {
  std::vector<Array> arrays = arrays_of(model, rows, team.size());
  collect(backend, arrays, team, model.sample_group);
  collective_try(team, [&] {
    if (team.root()) write(backend, path, arrays, texts);
  });
}

CheckpointTexts read_checkpoint_texts(const std::string& path) try {
  const Hdf5File file = open(path);
  return {file.read_text("progress"), file.read_text("config")};
} catch (const DataError& error) {
  damaged(error.what());
}

int load_checkpoint(Backend& backend, const std::string& path, const SavedArrays& model, StateRows rows, Comm& team) {
  std::vector<Array> arrays = arrays_of(model, rows, team.size());
  collective_try(team, [&] {
    if (team.root()) read(path, arrays);
  });
  distribute(backend, arrays, team);
  const auto others = std::ranges::find_if(arrays, [&](const Array& array) {
    return !array.workers.empty() && array.rows != static_cast<std::size_t>(model.workers.all);
  });
  return others == arrays.end() ? 0 : static_cast<int>(others->rows);
}

Checkpoints::Checkpoints(const Config& config, const Plan& plan, Index samples, int ranks, Epochs epochs)
    : config_(config), phases_(plan.phases()), samples_(samples), ranks_(ranks), epochs_(epochs) {}

void Checkpoints::find(Comm& world) {
  std::vector<CheckpointTexts> files(phases_.size());
  collective_try(world, [&] {
    for (std::size_t i = 0; world.root() && i < phases_.size(); ++i)
      if (fs::exists(path(phases_[i].number))) files[i] = read_checkpoint_texts(path(phases_[i].number));
  });
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    world.broadcast(files[i].progress, 0);
    world.broadcast(files[i].config, 0);
    if (!files[i].progress.empty()) adopt(phases_[i], files[i]);
  }
  std::erase_if(found_, [&](const auto& saved) { return saved.second.phase.stage < first_stage_; });
}

// All ranks see the same texts, so all of them fail if one does.
void Checkpoints::adopt(const Phase& phase, const CheckpointTexts& texts) try {
  const std::string origin = path(phase.number);
  require_shallow_json(texts.progress, origin);
  const Json json = Json::parse(texts.progress);
  RunStart was{parse_config(texts.config, origin, {}, Writer::run), whole_number<Index>(json.at("samples")),
               whole_number<int>(json.at("ranks"))};
  if (json.contains("data")) was.data = data_record_from_json(json.at("data").dump(), origin);
  const bool more = epochs_ == Epochs::more && last_epochs(was.config) != last_epochs(config_);
  if (more) set_last_epochs(was.config, last_epochs(config_));
  const RunStart is{config_, samples_, ranks_, data_};
  require_continuable(was, is, epochs_, contents_);
  data_line_ = data_news(was, is);
  automatic_ = automatic_ || json.value("automatic", false);  // earlier versions did not save it,
  kernels_ = json.value("kernels", "");                       // nor this
  communication_ = json.value("communication", "");
  TrainState state = train_state_from_json(json.at("state").dump(), phase, origin);
  if (epochs_ == Epochs::more && phase.last()) go_further(state);
  if (state.finished()) ended_.insert_or_assign(phase.number, state.history);
  for (const Json& earlier : json.at("history"))
    ended_.insert_or_assign(whole_number<int>(earlier.at("number")),
                            phase_history_from_json(earlier.at("step").dump(), origin));
  if (leads(phase)) first_stage_ = std::max(first_stage_, phase.stage);
  found_.emplace(phase.number, Saved{phase, {std::move(state), ages_of(json.at("optimizer_steps"))}});
} catch (const Error&) {
  throw;
} catch (const std::exception& error) {
  throw DataError(fmt::format("{}: not a checkpoint of this mrmf ({}); begin anew with --overwrite", path(phase.number),
                              error.what()));
}

// A phase that its number of epochs has ended has not ended yet when there are more.
void Checkpoints::go_further(TrainState& state) const {
  PhaseRecord& record = state.history.record;
  if (!state.finished() || state.stop.epochs() >= phases_.back().stop.epochs) return;
  if (record.reason != to_string(StopReason::epochs))
    throw ConfigError(fmt::format(
        "{}: the last phase was ended after {} epoch{} by \"{}\", not by its number of epochs, so more of them change "
        "nothing; begin a new run with model.start = {}",
        config_.run.folder, state.stop.epochs(), state.stop.epochs() == 1 ? "" : "s", record.reason,
        quoted(config_.run.folder)));
  record.reason.clear();
}

std::string Checkpoints::path(int number) const {
  return (folder_of(config_) / fmt::format("step-{}.h5", number)).string();
}

std::string Checkpoints::position() const {
  const Saved& last = found_.rbegin()->second;
  return position_text(last.phase, last.restored.state);
}

std::vector<PhaseHistory> Checkpoints::history() const {
  std::map<int, PhaseHistory> all = ended_;
  for (const auto& [number, saved] : found_) all.insert_or_assign(number, saved.restored.state.history);
  std::vector<PhaseHistory> list;
  for (auto& [number, history] : all) list.push_back(std::move(history));
  return list;
}

void Checkpoints::add(const Phase& phase, const PhaseHistory& history) {
  ended_.insert_or_assign(phase.number, history);
}

void Checkpoints::clear(const Comm& world) {
  if (world.root()) remove_checkpoints(config_.run.folder);
}

void Checkpoints::keep_last(const Comm& world) {
  if (world.root()) remove_checkpoints(config_.run.folder, fs::path(path(phases_.back().number)).filename().string());
}

std::optional<Restored> Checkpoints::load(Backend& backend, const SavedArrays& model, const Phase& phase,
                                          Comm& team) const {
  const auto saved = found_.find(phase.number);
  if (saved == found_.end()) return {};
  if (model.best != nullptr) {
    *model.best = {};
    if (saved->second.restored.state.best.epoch > 0)
      *model.best = {std::vector<float>(model.params.size()), std::vector<float>(model.state.size())};
  }
  Restored restored = saved->second.restored;
  restored.saved_workers = load_checkpoint(backend, path(phase.number), model, rows_of(config_), team);
  return restored;
}

void Checkpoints::save(Backend& backend, const SavedArrays& model, const Phase& phase, const TrainState& state,
                       Comm& team) {
  save_checkpoint(backend, path(phase.number), model, texts(model.ages, phase, state), rows_of(config_), team);
  if (state.finished()) ended_.insert_or_assign(phase.number, state.history);
  if (!team.root() || !leads(phase)) return;
  for (const Phase& earlier : phases_)
    if (earlier.stage < phase.stage) remove(path(earlier.number));
}

CheckpointTexts Checkpoints::texts(const MomentAges& ages, const Phase& phase, const TrainState& state) const {
  Json history = Json::array();
  for (const auto& [number, ended] : ended_)
    if (ended.record.stage < phase.stage)
      history.push_back({{"number", number}, {"step", Json::parse(to_json(ended))}});
  const Versions versions = these_versions("");
  Json json{{"program", versions.mrmf + " (" + versions.git + ")"},
            {"samples", samples_},
            {"ranks", ranks_},
            {"automatic", automatic_},
            {"kernels", kernels_},
            {"communication", communication_},
            {"optimizer_steps", {ages.bottom, ages.top}},
            {"state", Json::parse(to_json(state))},
            {"history", history}};
  if (data_) json["data"] = Json::parse(to_json(*data_));
  return {json.dump(), to_toml(config_)};
}

}  // namespace mrmf
