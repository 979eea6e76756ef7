// Whether an unfinished run may continue: the same configuration, the same numbers in the data files, mini-batches of
// the same size. Declared in checkpoint.hpp.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/values/class_names.hpp"
#include "io/values/packing_units.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"
#include "src/config/toml.hpp"
#include "src/plan/plan.hpp"
#include "src/run/checkpoint.hpp"
#include "src/run/records_and_train_state.hpp"

namespace mrmf {
namespace {

using SortedJson = nlohmann::json;

// Which rows the sums are of, and how they are made. Records by another rule cannot be compared.
constexpr int kRule = 2;

std::string time_text(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(seconds)));
}

std::string more_text(std::size_t count) { return count > 1 ? fmt::format(", and {} more", count - 1) : ""; }

// "written 2026-11-26 09:41:26, and 2026-11-25 18:00:02 then"
std::string times_text(const RecordedData& was, const RecordedData& is, std::size_t file) {
  const std::int64_t then = was.record.modified[file], now = is.record.modified[file];
  return then == now ? fmt::format("written {}, as then", time_text(now))
                     : fmt::format("written {}, and {} then", time_text(now), time_text(then));
}

}  // namespace

DataRecord record_data(const DataConfig& data, Comm& world) {
  std::string text;
  collective_try_on_root(world, [&] { text = to_json(record_of(used_files(data.train, data.validation))); });
  world.broadcast(text, 0);
  return data_record_from_json(text, "data.files");
}

std::string to_json(const DataRecord& record) {
  SortedJson arrays = SortedJson::array();
  for (const ArrayRecord& array : record.arrays)
    arrays.push_back({{"file", array.file},
                      {"name", array.name},
                      {"shape", array.shape},
                      {"type", array.type},
                      {"sum", fmt::format("{:016x}", array.sum)}});
  return SortedJson{{"rule", kRule}, {"bytes", record.bytes}, {"modified", record.modified}, {"arrays", arrays}}.dump();
}

DataRecord data_record_from_json(const std::string& text, const std::string& origin) try {
  require_shallow_json(text, origin);
  const SortedJson json = SortedJson::parse(text);
  DataRecord record;
  if (json.at("rule") != kRule) return record;
  for (const SortedJson& bytes : json.at("bytes")) record.bytes.push_back(whole_number<Index>(bytes));
  for (const SortedJson& time : json.at("modified")) record.modified.push_back(whole_number<std::int64_t>(time));
  if (record.bytes.size() != record.modified.size())
    throw std::runtime_error("sizes and times are not of as many files");
  for (const SortedJson& array : json.at("arrays")) {
    std::vector<Index> shape;
    for (const SortedJson& size : array.at("shape")) shape.push_back(whole_number<Index>(size));
    record.arrays.push_back({whole_number<Index>(array.at("file")), array.at("name"), std::move(shape),
                             std::stoull(array.at("sum").get<std::string>(), nullptr, 16), array.at("type")});
    if (record.arrays.back().file < 0 || record.arrays.back().file >= std::ssize(record.bytes))
      throw std::runtime_error("a sum is of no file");
  }
  return record;
} catch (const Error&) {
  throw;
} catch (const std::exception& error) {
  throw DataError(fmt::format("{}: what is recorded of the data is not readable ({})", origin, error.what()));
}

bool comparable(const RecordedData& was, const RecordedData& is) {
  return was.files.size() == is.files.size() && was.record.bytes.size() == was.files.size() &&
         is.record.bytes.size() == is.files.size();
}

std::string changed_numbers(const RecordedData& was, const RecordedData& is) {
  std::string first;
  std::size_t count = 0;
  for (const ArrayRecord& now : is.record.arrays) {
    const auto then = std::ranges::find_if(
        was.record.arrays, [&](const ArrayRecord& array) { return array.file == now.file && array.name == now.name; });
    if (then == was.record.arrays.end() || then->same_contents(now) || ++count > 1) continue;
    const std::string types = then->type == now.type ? "" : fmt::format("{} now, {} then; ", now.type, then->type);
    const auto file = static_cast<std::size_t>(now.file);
    first = fmt::format("data set '{}' of {} {} ({}{})", now.name, is.files[file].path,
                        then->shape == now.shape
                            ? "holds other numbers"
                            : fmt::format("has shape {}, and had {}", shape_text(now.shape), shape_text(then->shape)),
                        types, times_text(was, is, file));
  }
  return first + more_text(count);
}

std::string touched_files(const RecordedData& was, const RecordedData& is) {
  std::string first;
  std::size_t count = 0;
  for (std::size_t i = 0; i < is.files.size(); ++i) {
    const std::string &then = was.files[i].path, &now = is.files[i].path;
    const bool resized = was.record.bytes[i] != is.record.bytes[i];
    if ((then == now && !resized && was.record.modified[i] == is.record.modified[i]) || ++count > 1) continue;
    const std::string size =
        resized ? fmt::format(", {} bytes, and {} then", is.record.bytes[i], was.record.bytes[i]) : "";
    first = fmt::format("{}{} ({}{})", now, then == now ? "" : " in place of " + then, times_text(was, is, i), size);
  }
  return first + more_text(count);
}

namespace {

constexpr const char* kAnew = "give --overwrite to begin anew, or take another folder with --set run.folder=...";

/// What is to be done about a run that cannot continue as it is asked to.
struct Advice {
  const RunStart& is;
  Epochs epochs;
  // --continue takes neither --overwrite nor another folder.
  std::string anew() const {
    if (epochs == Epochs::same) return kAnew;
    return "begin a new run with model.start = " + quoted(is.config.run.folder) + " in another folder";
  }
  std::string back(std::size_t keys = 1) const {
    return std::string(keys == 1 ? "set it back, " : "set them back, ") + (epochs == Epochs::same ? "" : "or ") +
           anew();
  }
  std::string holds() const {
    return "run.folder: " + is.config.run.folder +
           (epochs == Epochs::same ? " holds an unfinished run " : " holds a run ");
  }
};

void scale(RoleSettings& role, int factor) {
  if (role.batch) *role.batch *= factor;
}

/// Ranks, or sample groups.
int groups(const RunStart& start, const Extent& grid) { return start.ranks / static_cast<int>(product(grid)); }
int groups(const RunStart& start) { return groups(start, start.config.run.grid.front()); }

// "2 shards"
std::string counted(int count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// The configuration with batches and shards of all ranks in place of one rank's: equal if the mini-batches are.
Config over_ranks(const RunStart& start) {
  Config config = start.config;
  const int factor = groups(start);
  if (config.data.shards == 0) config.data.shards = factor;
  config.training.batch *= factor;
  for (RoleSettings* role : {&config.method.coarse, &config.method.dense, &config.method.finetune})
    scale(*role, factor);
  for (StageOverride& stage : config.method.stages) scale(stage.coarse, factor), scale(stage.dense, factor);
  return config;
}

// The configuration without the keys that set mini-batches.
Config without_batches(Config config) {
  config.data.shards = 0;
  config.training.batch = 1;
  MethodConfig& method = config.method;
  for (RoleSettings* role : {&method.coarse, &method.dense, &method.finetune}) role->batch.reset();
  for (StageOverride& stage : method.stages) stage.coarse.batch.reset(), stage.dense.batch.reset();
  return config;
}

// Where each resolution has a grid of its own, so that one number of groups does not tell: phase by phase.
void require_same_batches(const RunStart& was, const Advice& advice) {
  const RunStart& is = advice.is;
  const std::vector<Phase> then = make_plan(was.config).phases(), now = make_plan(is.config).phases();
  const auto shards = [](const RunStart& start, const Phase& phase) {
    return start.config.data.shards > 0 ? start.config.data.shards : groups(start, phase.grid);
  };
  for (std::size_t i = 0; i < then.size(); ++i) {
    const int batch_then = then[i].batch * groups(was, then[i].grid), batch = now[i].batch * groups(is, now[i].grid);
    const int shards_then = shards(was, then[i]), shards_now = shards(is, now[i]);
    if (batch_then == batch && shards_then == shards_now) continue;
    throw ConfigError(fmt::format(
        "{}where {} has mini-batches of {} from {} of the data, and here of {} from {}: keep data.shards and "
        "the batch times the groups of ranks that run.grid makes; {}",
        advice.holds(), phase_text(then[i]), batch_then, counted(shards_then, "shard"), batch, shards_now,
        advice.back()));
  }
}

// Lists of tables are too long for a line.
std::string value_text(const std::string& toml) {
  constexpr std::size_t kLong = 60;
  return toml.empty() ? "not set" : toml.size() > kLong ? "another" : toml;
}

// "training.seed is 1, and here it is 5"
std::string text(const KeyDifference& difference) {
  const std::string was = value_text(difference.was), is = value_text(difference.is);
  if (was == is) return difference.key + " is another than here";
  return difference.key + " is " + was + ", and here it is " + is;
}

// "2 keys differ: training.seed (1 then, 5 now), data.shards (not set then, 4 now)"
std::string text(const std::vector<KeyDifference>& found) {
  constexpr std::size_t kNamed = 3;
  if (found.size() == 1) return text(found.front());
  std::string named;
  for (std::size_t i = 0; i < std::min(found.size(), kNamed); ++i) {
    const std::string was = value_text(found[i].was), is = value_text(found[i].is);
    named += (named.empty() ? "" : ", ") + found[i].key;
    named += was == is ? " (another)" : fmt::format(" ({} then, {} now)", was, is);
  }
  return fmt::format("{} keys differ: {}{}", found.size(), named,
                     found.size() > kNamed ? fmt::format(" and {} more", found.size() - kNamed) : "");
}

// The files of training and validation: data.split.by = "files" deals them out.
std::set<std::string> all_files(const DataConfig& data) {
  std::set<std::string> files(data.train.files.begin(), data.train.files.end());
  files.insert(data.validation.files.begin(), data.validation.files.end());
  return files;
}

// "c.h5 is new": the files that only one of them has, of which there may be thousands.
std::string only_in(const std::set<std::string>& these, const std::set<std::string>& those, const std::string& what) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> names;
  std::ranges::set_difference(these, those, std::back_inserter(names));
  if (names.empty()) return "";
  const std::size_t more = names.size() - std::min(names.size(), kNamed);
  names.resize(names.size() - more);
  return fmt::format("{}{} {} {}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "",
                     names.size() + more > 1 ? "are" : "is", what);
}

// The files by name, where they are not the same.
void require_same_files(const RunStart& was, const Advice& advice) {
  const std::set<std::string> then = all_files(was.config.data), now = all_files(advice.is.config.data);
  if (then == now) return;
  const std::string gone = only_in(then, now, "gone"), added = only_in(now, then, "new");
  throw ConfigError(fmt::format(
      "{}of other data files: {}{}{}; name the same files again (a pattern names all that are there now){} {}",
      advice.holds(), gone, gone.empty() || added.empty() ? "" : ", ", added,
      advice.epochs == Epochs::same ? "," : ", or", advice.anew()));
}

// Files that can be held against each other one by one: both starts have records of as many, in the same order.
std::optional<std::pair<RecordedData, RecordedData>> records_of(const RunStart& was, const RunStart& is) {
  if (!was.data || !is.data) return {};
  const auto recorded = [](const RunStart& start) {
    return RecordedData{used_files(start.config.data.train, start.config.data.validation), *start.data};
  };
  auto both = std::pair(recorded(was), recorded(is));
  const auto names = [](const RecordedData& of) {
    std::vector<std::string> paths;
    for (const UsedFile& file : of.files) paths.push_back(file.path);
    return paths;
  };
  const bool reordered =
      names(both.first) != names(both.second) && all_files(was.config.data) == all_files(is.config.data);
  if (reordered || !comparable(both.first, both.second)) return {};
  return both;
}

// The numbers in the files, as far as they are recorded.
void require_same_numbers(const std::pair<RecordedData, RecordedData>& records, const Advice& advice) {
  const std::string changed = changed_numbers(records.first, records.second);
  if (changed.empty()) return;
  throw DataError(fmt::format(
      "{}on other numbers: {}; restore the files, {}{}, or continue with what is there now: mrmf train --continue {} "
      "--allow-changed-data",
      advice.holds(), changed, advice.epochs == Epochs::same ? "" : "or ", advice.anew(), advice.is.config.run.folder));
}

// What the labels' files call their numbers. Earlier versions kept none.
void require_same_label_names(const RunStart& was, const Advice& advice) {
  const LabelNames then = LabelNames::from_texts(was.config.data.names.stored, "the run"),
                   now = LabelNames::from_texts(advice.is.config.data.names.stored, "the data");
  if (const std::string text = contradiction(then, now); !text.empty())
    throw DataError(fmt::format("{}on labels of other names: {}; restore the files, {}{}", advice.holds(), text,
                                advice.epochs == Epochs::same ? "" : "or ", advice.anew()));
}

// Keys that a run sets itself where the user does not, by what it finds in the training data.
bool may_be_measured(const KeyDifference& difference) {
  static const std::set<std::string> keys{"data.normalise.sample_mean", "data.normalise.sample_std",
                                          "data.normalise.label_mean", "data.normalise.label_std", "data.fill"};
  return keys.contains(difference.key) && !difference.was.empty() && !difference.is.empty();
}

// The texts of a list, as configurations write it.
std::vector<std::string> texts_in(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, '"');) parts.push_back(part);
  std::vector<std::string> texts;
  for (std::size_t i = 1; i < parts.size(); i += 2) texts.push_back(parts[i]);
  return texts;
}

// Units that a start does not know, or knows no scales of, as one of an earlier version, or spells otherwise.
bool are_same_units(const KeyDifference& difference) {
  if (!difference.key.starts_with("data.units.")) return false;
  if (difference.was.empty() || difference.is.empty() || same_units(difference.was, difference.is)) return true;
  const auto fits = [](const std::string& was, const std::string& is) {
    return was == "?" || fit_units(was, is) || fit_units(is, was);
  };
  return std::ranges::equal(texts_in(difference.was), texts_in(difference.is), fits);
}

[[noreturn]] void refuse_changed_data(const RunStart& was, const Advice& advice, const KeyDifference& measured) {
  const Index now = advice.is.samples;
  const std::string samples = was.samples == now ? "" : fmt::format(": {} samples then, {} now", was.samples, now);
  throw ConfigError(
      fmt::format("{}on other training data{} ({}; unless you set it, it is measured over the training samples); {}{}",
                  advice.holds(), samples, text(measured), advice.back(),
                  was.data ? ", or keep what was measured then: mrmf train --continue " + advice.is.config.run.folder +
                                 " --allow-changed-data"
                           : ""));
}

// The files of training and validation, whose numbers are the same, have the names of now. Those of the test that are
// among them have moved with them; files of the test's own are in no record, and keep their names.
void follow_moves(DataConfig& was, const DataConfig& is) {
  std::map<std::string, std::string> name_now;
  for (const auto& [then, now] :
       {std::pair(&was.train.files, &is.train.files), std::pair(&was.validation.files, &is.validation.files)}) {
    for (std::size_t i = 0; i < std::min(then->size(), now->size()); ++i) name_now.emplace((*then)[i], (*now)[i]);
    *then = *now;
  }
  for (std::string& file : was.test.files)
    if (const auto found = name_now.find(file); found != name_now.end()) file = found->second;
}

bool holds_key(const std::vector<KeyDifference>& found, const std::string& key) {
  return std::ranges::any_of(found, [&](const KeyDifference& difference) { return difference.key == key; });
}

// What this start is to set, so that its mini-batches are those of before: "--set data.shards=2 --set
// training.batch=32". `batches` are over all ranks. Where a key is no number (a table of stages, a batch that was not
// set), it is said in words; "" where this many groups cannot share a batch.
std::string same_batches(const std::vector<KeyDifference>& batches, int shards, int groups_now) {
  std::string settings;
  for (const KeyDifference& difference : batches) {
    const std::string& was = difference.was;
    const bool number = !was.empty() && std::ranges::all_of(was, [](char c) { return '0' <= c && c <= '9'; });
    const int of_all = number ? std::stoi(was) : 0;
    if (number && difference.key != "data.shards" && of_all % groups_now != 0) return "";
    if (!number) return fmt::format("data.shards = {} and every batch times ranks as it was", shards);
    settings += fmt::format("{}--set {}={}", settings.empty() ? "" : " ", difference.key,
                            difference.key == "data.shards" ? of_all : of_all / groups_now);
  }
  return settings;
}

// Other numbers of ranks, or of groups of ranks, make other mini-batches unless the configuration makes up for it.
[[noreturn]] void refuse_other_ranks(const RunStart& was, const Advice& advice,
                                     const std::vector<KeyDifference>& batches,
                                     const std::vector<KeyDifference>& others) {
  const int then = groups(was), now = groups(advice.is), own = was.config.data.shards;
  const int shards = own > 0 ? own : then;
  const bool grids = then != was.ranks || now != advice.is.ranks;
  const std::string noun = grids ? "group" : "rank";
  std::string remedy = grids ? fmt::format("make it {} again", then) : fmt::format("start it on {}", then);
  const std::string settings = same_batches(batches, shards, now);
  if (shards % now == 0 && !settings.empty())
    remedy += ", or keep its mini-batches with " + settings;
  else if (shards % now == 0)
    remedy += fmt::format(" (its mini-batches do not divide by {})", now);
  else if (own == 0)
    remedy += fmt::format(" (data.shards was not set, so its data is in {}, which {} cannot share)",
                          counted(shards, "shard"), counted(now, noun));
  else
    remedy += fmt::format(", or another number that divides data.shards = {}", shards);
  if (!others.empty())
    remedy += "; besides, " + text(others) + (others.size() == 1 ? ": set it back" : ": set them back");
  throw ConfigError(fmt::format("{}that was started on {}{}, and now there {} {}: {}; or {}", advice.holds(),
                                counted(then, noun), grids ? " of ranks (run.grid)" : "", now == 1 ? "is" : "are", now,
                                remedy, advice.anew()));
}

// What gives a run more epochs, where nothing else is asked for.
std::string more_epochs(const RunStart& was, const Advice& advice, const std::vector<KeyDifference>& found) {
  const bool alone =
      found.size() == 1 && (holds_key(found, "training.epochs") || holds_key(found, "method.stop.finetune.epochs"));
  const int wanted = last_epochs(advice.is.config);
  if (!alone || advice.epochs == Epochs::more || wanted <= last_epochs(was.config)) return "";
  return fmt::format("for more epochs of its last phase, mrmf train --continue {} --set training.epochs={}; otherwise ",
                     advice.is.config.run.folder, wanted);
}

// The keys that differ, but for numbers of ranks that come to the same mini-batches.
void require_same_keys(const RunStart& was, const Advice& advice, bool by_stage) {
  const RunStart& is = advice.is;
  auto found = by_stage ? differences(without_batches(was.config), without_batches(is.config))
                        : differences(over_ranks(was), over_ranks(is));
  std::erase_if(found, are_same_units);
  if (found.empty()) return;
  if (std::ranges::all_of(found, may_be_measured)) refuse_changed_data(was, advice, found.front());
  std::erase_if(found, may_be_measured);  // they may follow from the others
  if (!by_stage && groups(was) != groups(is)) {
    auto others = differences(without_batches(was.config), without_batches(is.config));  // not for the ranks' sake
    std::erase_if(others, may_be_measured);
    auto batches = found;
    std::erase_if(batches, [&](const KeyDifference& difference) { return holds_key(others, difference.key); });
    if (!batches.empty()) refuse_other_ranks(was, advice, batches, others);
  }
  auto written = differences(was.config, is.config);  // batches as the user wrote them, not those of all ranks
  std::erase_if(written, [&](const KeyDifference& difference) { return !holds_key(found, difference.key); });
  throw ConfigError(fmt::format("{}where {}; {}{}", advice.holds(), text(written), more_epochs(was, advice, written),
                                advice.back(written.size())));
}

}  // namespace

void require_continuable(const RunStart& before, const RunStart& is, Epochs epochs, DataContents contents) {
  const Advice advice{is, epochs};
  RunStart was = before;
  const bool by_stage = was.config.run.grid.size() > 1 || is.config.run.grid.size() > 1;
  if (was.ranks != is.ranks && !was.config.training.global_batch_norm)
    throw ConfigError(
        fmt::format("{}on {} with training.batch_norm = \"local\", where every rank has its own "
                    "statistics, and this is a run on {}; continue on {}, or {}",
                    advice.holds(), counted(was.ranks, "rank"), is.ranks, counted(was.ranks, "rank"), advice.anew()));
  require_same_label_names(was, advice);
  if (const auto records = records_of(was, is)) {
    if (contents == DataContents::same) require_same_numbers(*records, advice);
    follow_moves(was.config.data, is.config.data);
  }
  require_same_files(was, advice);
  require_same_keys(was, advice, by_stage);
  if (by_stage) require_same_batches(was, advice);
  if (was.samples != is.samples)
    throw ConfigError(fmt::format("{}on {} training samples, and the data now has {}; {}", advice.holds(), was.samples,
                                  is.samples, advice.back()));
}

std::string data_news(const RunStart& was, const RunStart& is) {
  const auto records = records_of(was, is);
  if (!records) return "";
  const std::string changed = changed_numbers(records->first, records->second);
  if (!changed.empty()) return "warning: the run continues with other numbers than it was saved with: " + changed;
  const std::string touched = touched_files(records->first, records->second);
  return touched.empty() ? "" : "data: " + touched + "; as far as they were compared, the numbers are the same";
}

}  // namespace mrmf
