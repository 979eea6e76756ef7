#include "io/files/output_file.hpp"
#include "src/run/checkpoint_arrays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/output.hpp"
#include "kernels/backend.hpp"
#include "kernels/errors.hpp"
#include "layers/network.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/config/toml.hpp"
#include "src/run/model_file.hpp"
#include "src/run/run_folder.hpp"
#include "src/system/host_info.hpp"

namespace mrmf {
namespace {

using checkpoint::Array;
using checkpoint::arrays_of;
using checkpoint::Blocks;
using checkpoint::blocks_from_json;
using checkpoint::distribute;

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
  if (format != kCheckpointFormat)
    throw DataError(
        fmt::format("{}: its format is \"{}\" and this mrmf reads \"{}\"", path, format, kCheckpointFormat));
  return file;
}

// Otherwise a run would silently continue without data for which this model has no place.
void require_nothing_else(const std::string& path, const std::vector<Array>& arrays, const Blocks& blocks) {
  std::set<std::string> expected{"progress", "config", checkpoint::kBlocks};
  for (const Array& array : arrays) expected.insert(array.name);
  for (const std::string& name : all_datasets(path))
    if (!expected.contains(name))
      throw DataError(path + ": data set " + name + " is not of this model and its optimizer");
  for (const auto& [name, parts] : blocks.arrays)
    if (!expected.contains(name))
      throw DataError(path + ": array " + name + " of its blocks is not of this model and its optimizer");
}

std::string blocks_text(const Hdf5File& file) {
  return file.has(checkpoint::kBlocks) ? file.read_text(checkpoint::kBlocks) : "";
}

// Looks whether the file has these arrays, but for those in files of blocks, in their shapes; of any number of workers.
void require_arrays(const Hdf5File& file, const std::string& path, std::vector<Array>& arrays, const Blocks& blocks) {
  for (Array& array : arrays) {
    if (blocks.arrays.contains(array.name)) continue;
    const std::vector<Index> shape = file.info(array.name).shape;
    if (!array.workers.empty() && shape.size() == array.shape.size() && shape.front() > 0)
      array.rows = static_cast<std::size_t>(array.shape.front() = shape.front());
    if (shape != array.shape)
      throw DataError(path + ": data set " + array.name + " has another shape than this model's layer");
  }
  require_nothing_else(path, arrays, blocks);
}

/// A checkpoint that is whole and has this model's arrays.
struct OpenCheckpoint {
  Hdf5File file;
  std::string blocks;  // text of those in files beside it

  OpenCheckpoint(const std::string& path, std::vector<Array>& arrays) try
      : file(open(path)), blocks(blocks_text(file)) {
    require_arrays(file, path, arrays, blocks_from_json(blocks, path));
  } catch (const DataError& error) {
    damaged(error.what());
  }
};

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

StateRows rows_of(const Config& config) {
  return config.training.global_batch_norm ? StateRows::one : StateRows::one_per_rank;
}

// Whether this is a phase of the model that goes through the stages; the finest model is fused from its predecessors.
bool leads(const Phase& phase) { return phase.role != Role::dense; }

// Ages of bottom and top. An older file has one number for both.
MomentAges ages_of(const SortedJson& steps) {
  const auto age = [](const SortedJson& json) { return whole_number<std::uint64_t>(json); };
  if (!steps.is_array()) return {age(steps), age(steps)};
  return {age(steps.at(0)), age(steps.at(1))};
}

// A checkpoint and its blocks. A file that cannot be removed does no harm: it is never read again.
void remove(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
  checkpoint::remove_blocks(path.string(), {});
}

// The saves whose blocks this checkpoint needs, and the one before it where that was kept.
std::vector<int> needed_saves(const std::string& path, const Blocks& blocks) {
  std::vector<int> saves{blocks.save};
  if (const std::string before = path_before(path); fs::exists(before))
    saves.push_back(blocks_from_json(read_checkpoint_texts(before).blocks, before).save);
  return saves;
}

}  // namespace

void save_checkpoint(Backend& backend, const std::string& path, const SavedArrays& model, const CheckpointTexts& texts,
                     StateRows rows, Comm& team) {
  std::vector<Array> arrays = arrays_of(model, rows, team.size());
  const Blocks blocks = checkpoint::write_blocks(backend, path, arrays, model.sample_group, team);
  std::optional<Hdf5Output> file;  // on the root
  const auto on_root = [&](const auto& action) {
    collective_try(team, [&] {
      if (team.root()) action();
    });
  };
  on_root([&] {
    file.emplace(path, Replace::file, Comm::self(), Hdf5Output::End::checksum);
    std::size_t bytes = 0;
    for (const Array& array : arrays) bytes += array.bytes();
    file->reserve(bytes);
    file->write_attribute("format", kCheckpointFormat);
  });
  for (Array& array : arrays) checkpoint::save_array(backend, file ? &*file : nullptr, array, team, model.sample_group);
  on_root([&] {
    file->write_text("progress", texts.progress);
    file->write_text("config", texts.config);
    if (!blocks.empty()) file->write_text(checkpoint::kBlocks, to_json(blocks));
    file->commit();
    checkpoint::remove_blocks(path, needed_saves(path, blocks));
  });
}

CheckpointTexts read_checkpoint_texts(const std::string& path) try {
  const Hdf5File file = open(path);
  return {file.read_text("progress"), file.read_text("config"), blocks_text(file)};
} catch (const DataError& error) {
  damaged(error.what());
}

int load_checkpoint(Backend& backend, const std::string& path, const SavedArrays& model, StateRows rows, Comm& team) {
  std::vector<Array> arrays = arrays_of(model, rows, team.size());
  std::optional<OpenCheckpoint> opened;  // on the root
  collective_try(team, [&] {
    if (team.root()) opened.emplace(path, arrays);
  });
  std::string text = opened ? opened->blocks : "";
  team.broadcast(text, 0);
  const Blocks blocks = blocks_from_json(text, path);
  const std::vector<Array> in_blocks = take_out(arrays, blocks);
  for (Array& array : arrays) distribute(backend, opened ? &opened->file : nullptr, array, team);
  collective_try(team, [&] { read_blocks(backend, path, blocks, in_blocks); });
  const auto others = std::ranges::find_if(arrays, [&](const Array& array) {
    return !array.workers.empty() && array.rows != static_cast<std::size_t>(model.workers.all);
  });
  return others == arrays.end() ? 0 : static_cast<int>(others->rows);
}

Checkpoints::Checkpoints(const Config& config, const Plan& plan, Index samples, int ranks, Epochs epochs)
    : config_(config), phases_(plan.phases()), samples_(samples), ranks_(ranks), epochs_(epochs) {}

void Checkpoints::find(Comm& world) {
  std::vector<CheckpointTexts> files(phases_.size());
  for (const Phase& phase : phases_) {  // the root decides: another node may not see yet what is there
    std::string name = checkpoint_file(config_.run.folder, phase.number);
    world.broadcast(name, 0);
    paths_.insert_or_assign(phase.number, name);
  }
  collective_try(world, [&] {
    for (std::size_t i = 0; world.root() && i < phases_.size(); ++i)
      if (fs::exists(path(phases_[i].number))) files[i] = read_checkpoint_texts(path(phases_[i].number));
  });
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    world.broadcast(files[i].progress, 0);
    world.broadcast(files[i].config, 0);
    world.broadcast(files[i].blocks, 0);
    const std::string file = path(phases_[i].number);
    verify_blocks(file, blocks_from_json(files[i].blocks, file), world);
    if (!files[i].progress.empty()) adopt(phases_[i], files[i]);
  }
  std::erase_if(found_, [&](const auto& saved) { return saved.second.phase.stage < first_stage_; });
}

// All ranks see the same texts, so all of them fail if one does.
void Checkpoints::adopt(const Phase& phase, const CheckpointTexts& texts) try {
  const std::string origin = path(phase.number);
  require_shallow_json(texts.progress, origin);
  const SortedJson json = SortedJson::parse(texts.progress);
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
  for (const SortedJson& earlier : json.at("history"))
    ended_.insert_or_assign(whole_number<int>(earlier.at("number")),
                            phase_history_from_json(earlier.at("step").dump(), origin));
  if (leads(phase)) first_stage_ = std::max(first_stage_, phase.stage);
  saved_round_ = state.tournament.rounds;
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
  const auto known = paths_.find(number);
  return known != paths_.end() ? known->second : checkpoint_file(config_.run.folder, number);
}

std::string path_before(const std::string& file) { return file.substr(0, file.rfind(".h5")) + "-before.h5"; }

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
  if (const int round = state.tournament.rounds; round != saved_round_) {
    collective_try(team, [&] {
      const std::string file = path(phase.number);
      if (team.root() && fs::exists(file)) rename_file(file, path_before(file));
    });
    saved_round_ = round;
  }
  save_checkpoint(backend, path(phase.number), model, texts(model.ages, phase, state), rows_of(config_), team);
  if (state.finished()) ended_.insert_or_assign(phase.number, state.history);
  if (!team.root() || !leads(phase)) return;
  for (const Phase& earlier : phases_)
    if (earlier.stage < phase.stage) remove(path(earlier.number));
}

CheckpointTexts Checkpoints::texts(const MomentAges& ages, const Phase& phase, const TrainState& state) const {
  SortedJson history = SortedJson::array();
  for (const auto& [number, ended] : ended_)
    if (ended.record.stage < phase.stage)
      history.push_back({{"number", number}, {"step", SortedJson::parse(to_json(ended))}});
  const Versions versions = these_versions("");
  SortedJson json{{"program", versions.mrmf + " (" + versions.git + ")"},
                  {"samples", samples_},
                  {"ranks", ranks_},
                  {"automatic", automatic_},
                  {"kernels", kernels_},
                  {"communication", communication_},
                  {"optimizer_steps", {ages.bottom, ages.top}},
                  {"state", SortedJson::parse(to_json(state))},
                  {"history", history}};
  if (data_) json["data"] = SortedJson::parse(to_json(*data_));
  return {json.dump(), to_toml(config_)};
}

}  // namespace mrmf
