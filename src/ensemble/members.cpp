// What makes an ensemble's members (a simulator, trainings, or a program of the user's), and where a design's keys go
// in it.
#include "src/ensemble/ensemble.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "io/files/text.hpp"
#include "io/files/work_folder.hpp"
#include "io/hdf5/file.hpp"
#include "kernels/errors.hpp"
#include "src/config/config.hpp"
#include "src/config/key_table.hpp"
#include "src/config/toml.hpp"
#include "src/ensemble/spec_and_design.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/run/signals.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

std::string end_text(const ChildEnd& end, const std::string& log) {
  const std::string said = last_line(log);
  return fmt::format("{} {}{}{}", end.code > 128 ? "ended by signal" : "exit code",
                     end.code > 128 ? end.code - 128 : end.code, said.empty() ? "" : ": ", said);
}

// What keeps a member from being started, such as a full disk, is no failure of the member's: it ends the ensemble, and
// the same command continues.

/// Calls of the user's program, each in an empty folder of its own that is gone at its end.
class CommandMembers final : public MemberSimulator {
 public:
  CommandMembers(const EnsembleSpec& spec, const Workplace& workplace) : spec_(spec), workplace_(workplace) {}

  std::vector<MemberArray> parts() const override { return spec_.command->collect; }

  void make(std::span<MemberTask> members, Memory&) const override {
    for (MemberTask& member : members) make_one(member);
  }

 private:
  void make_one(MemberTask& member) const {
    const WorkFolder folder(fmt::format("{}/work/{}", workplace_.folder, member.number));
    const std::string own = fs::absolute(folder.path()).string(), log = own + "/log.txt", scratch = own + "/tmp";
    make_folders(scratch);
    ChildCall call;
    call.words = {"/bin/sh", "-c",
                  command_line(spec_, member.number, Point(member.values.begin(), member.values.end()))};
    call.folder = own, call.log = log;
    call.environment = {{"TMPDIR", scratch}, {"OMP_NUM_THREADS", std::to_string(workplace_.threads)}};
    call.confined = true;
    for (const std::string& path : spec_.command->writable) call.writable.push_back(fs::absolute(path).string());
    const ChildEnd end = run_child(call, workplace_.stop);
    if (end.stopped || (end.code == Stopped::exit_code && workplace_.stop)) {
      member.error = kToldToStop;
      return;
    }
    if (end.code != 0) {
      member.error = end_text(end, log);
      if (member.error.find("ermission denied") != std::string::npos)
        member.error += " (a member writes into its own folder; others are named by command.writable)";
      return;
    }
    try {
      collect(own, member);
    } catch (const std::exception& error) {
      member.error = error.what();
    }
  }

  void collect(const std::string& own, MemberTask& member) const {
    const std::string file = own + "/" + spec_.command->output;
    const fs::path real = fs::weakly_canonical(file), home = fs::weakly_canonical(own);
    if (std::mismatch(home.begin(), home.end(), real.begin(), real.end()).first != home.end()) {
      member.error = spec_.command->output + " leads out of the member's folder";
      return;
    }
    std::size_t at = 0;
    for (const MemberArray& part : spec_.command->collect) {
      const DatasetNumbers numbers = read_stored_numbers(file, part.name);
      if (numbers.shape != part.shape) {
        member.error = fmt::format("its data set '{}' is [{}], and command.collect says [{}]", part.name,
                                   fmt::join(numbers.shape, ", "), fmt::join(part.shape, ", "));
        return;
      }
      std::vector<float> row(numbers.values.begin(), numbers.values.end());
      std::memcpy(member.row.data() + at, row.data(), row.size() * sizeof(float));
      at += row.size() * sizeof(float);
    }
  }

  const EnsembleSpec& spec_;
  const Workplace& workplace_;
};

/// `mrmf train`, in run folders that stay.
class TrainingMembers final : public MemberSimulator {
 public:
  TrainingMembers(const EnsembleSpec& spec, const Workplace& workplace) : spec_(spec), workplace_(workplace) {}

  std::vector<MemberArray> parts() const override {
    return {{"results", {static_cast<Index>(std::size(kTrainingResults))}, ElementType::float64}};
  }

  void make(std::span<MemberTask> members, Memory&) const override {
    for (MemberTask& member : members) make_one(member);
  }

 private:
  void make_one(MemberTask& member) const {
    const TrainingCall training =
        training_call(spec_, workplace_.folder, member.number, Point(member.values.begin(), member.values.end()));
    if (!training.done) {
      make_folders(fs::path(training.run).parent_path().string());
      ChildCall call;
      call.words = {fs::read_symlink("/proc/self/exe").string(), "train", spec_.train->config};
      for (const std::string& setting : training.settings) call.words.insert(call.words.end(), {"--set", setting});
      call.log = training.run + ".txt";
      call.environment = {{"OMP_NUM_THREADS", std::to_string(workplace_.threads)}};
      const ChildEnd end = run_child(call, workplace_.stop);
      if (end.code != 0) {
        member.error = end.stopped ? kToldToStop : end_text(end, call.log);
        return;
      }
    }
    try {
      read_training(training.run, member.row);
    } catch (const DataError& error) {
      member.error = error.what();
    }
  }

  const EnsembleSpec& spec_;
  const Workplace& workplace_;
};

}  // namespace

std::unique_ptr<MemberSimulator> make_members(const EnsembleSpec& spec, const Workplace& workplace) {
  if (spec.simulate) return make_member_simulator(spec.simulate->simulator, spec.simulate->values);
  if (spec.train) return std::make_unique<TrainingMembers>(spec, workplace);
  return std::make_unique<CommandMembers>(spec, workplace);
}

std::vector<double> values_of(const EnsembleSpec& spec, const Point& point) {
  if (!spec.simulate) return point;
  std::vector<double> values = spec.simulate->values;
  for (std::size_t k = 0; k < point.size(); ++k) values[spec.simulate->key_indices[k]] = point[k];
  return values;
}

TrainingCall training_call(const EnsembleSpec& spec, const std::string& folder, Index member, const Point& point) {
  TrainingCall call{training_folder(folder, member), spec.train->settings};
  for (std::size_t k = 0; k < point.size(); ++k)
    call.settings.push_back(spec.design.axes[k].key + "=" + spec.design.axes[k].text(point[k]));
  call.settings.push_back("run.folder=" + mrmf::quoted(call.run));
  std::error_code none;
  call.done = fs::exists(call.run + "/result.json", none);
  return call;
}

void read_training(const std::string& run, std::span<std::byte> row) {
  const std::string file = run + "/result.json";
  const RunResult result = result_from_json(read_file(file), file);
  double epochs = 0;
  for (const PhaseRecord& phase : result.phases) epochs += phase.epochs;
  const double best = result.best ? result.best->validation_loss : result.validation_loss;
  const double numbers[] = {result.validation_loss, best, epochs, result.total_seconds};
  std::memcpy(row.data(), numbers, sizeof numbers);
}

std::string training_folder(const std::string& folder, Index member) {
  return fmt::format("{}/members/{:06}", folder, member);
}

// Where a design's keys go: into a simulator's values, a configuration, or a line of the shell.

namespace {

const std::vector<std::string> kOwnTokens{"member", "seed", "output"};

[[noreturn]] void unknown_axis(const Axis& axis, const std::string& of, const std::vector<std::string>& known) {
  throw ConfigError(fmt::format("{}: the design's key '{}' is no key of {}{}", axis.where, axis.key, of,
                                did_you_mean(axis.key, known)));
}

// Marks an axis as one of whole numbers, if it is.
void require_whole(Axis& axis, bool whole) {
  axis.whole = whole;
  if (!whole) return;
  std::vector<double> numbers{axis.from, axis.to};
  for (const std::string& value : axis.values) numbers.push_back(number_in_text(value).value());
  for (const double number : numbers)
    if (number != std::round(number))
      throw ConfigError(fmt::format("{}: '{}' takes whole numbers, not {}", axis.where, axis.key, number));
  if (axis.count > axis.to - axis.from + 1)
    throw ConfigError(fmt::format("{}: '{}' takes whole numbers, and from {} to {} there are fewer than count = {}",
                                  axis.where, axis.key, axis.from, axis.to, axis.count));
}

void place_simulator_axes(SimulateSpec& simulate, std::vector<Axis>& axes) {
  std::vector<std::string> names;
  for (const SimulatorKey& key : simulate.keys)
    if (!key.fixed) names.push_back(key.name);
  simulate.key_indices.clear();
  for (Axis& axis : axes) {
    const auto key = std::ranges::find(simulate.keys, axis.key, &SimulatorKey::name);
    if (key == simulate.keys.end()) unknown_axis(axis, "the simulator " + simulate.simulator, names);
    if (key->fixed)
      throw ConfigError(
          fmt::format("{}: '{}' is the same for all members; set it in [simulate]", axis.where, axis.key));
    if (axis.words)
      throw ConfigError(fmt::format("{}: the values of '{}' are words; it takes numbers", axis.where, axis.key));
    if (std::ranges::find(simulate.given, axis.key) != simulate.given.end())
      throw ConfigError(fmt::format("{}: '{}' is set in [simulate], too; leave it out there", axis.where, axis.key));
    require_whole(axis, key->whole);
    if (axis.from < key->least || axis.to > key->most)
      throw ConfigError(fmt::format("{}: '{}' is from {} to {}; the simulator {} takes {} to {}", axis.where, axis.key,
                                    axis.from, axis.to, simulate.simulator, key->least, key->most));
    simulate.key_indices.push_back(static_cast<std::size_t>(key - simulate.keys.begin()));
  }
}

void place_training_axes(const EnsembleSpec& spec, std::vector<Axis>& axes) {
  std::vector<std::string> known;
  std::vector<KeyDescription> keys = key_list();
  for (const KeyDescription& key : keys)
    if (key.list.empty()) known.push_back(key.path);
  for (Axis& axis : axes) {
    if (axis.key == "run.folder")
      throw ConfigError(axis.where + ": run.folder is the member's own; a design cannot set it");
    const std::string plain = axis.key.substr(0, axis.key.find('['));
    const auto key = std::ranges::find_if(
        keys, [&](const auto& k) { return k.list.empty() ? k.path == axis.key : k.list == plain; });
    if (key == keys.end()) unknown_axis(axis, "a configuration", known);
    if (!axis.words) require_whole(axis, key->expected.find("integer") != std::string::npos);
    // What values a key takes, its own reader says.
    std::vector<std::string> values = axis.values;
    if (values.empty()) values = {axis.text(axis.from), axis.text(axis.to)};
    for (const std::string& value : values) {
      std::vector<std::string> settings = spec.train->settings;
      settings.push_back(axis.key + "=" + value);
      read_config(spec.train->config, settings);
    }
  }
}

/// Calls token(name) for what stands in braces of a line, and text(piece) for the rest.
template <class Text, class Token>
void for_each_token(const std::string& line, Text&& text, Token&& token) {
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = line[at] == '{' ? line.find_first_not_of(kLetters, at + 1) : std::string::npos;
    const bool variable = at > 0 && line[at - 1] == '$';  // the shell's own
    if (end != std::string::npos && line[end] == '}' && end > at + 1 && !variable) {
      token(line.substr(at + 1, end - at - 1));
      at = end + 1;
    } else {
      const bool twice = at + 1 < line.size() && (line[at] == '{' || line[at] == '}') && line[at + 1] == line[at];
      text(line[at]);
      at += twice ? 2 : 1;
    }
  }
}

// A word stands in the line as it is, so it must be none of the shell's.
void require_plain_words(const Axis& axis) {
  constexpr const char* kShell = "$`\"'\\;|&<>(){}*?[]!#~\n\r";
  for (const std::string& word : axis.values)
    if (word.find_first_of(kShell) != std::string::npos)
      throw ConfigError(
          fmt::format("{}: the value \"{}\" of '{}' has a character that the shell reads; take a plain word",
                      axis.where, word, axis.key));
}

void place_command_axes(const EnsembleSpec& spec, std::vector<Axis>& axes) {
  std::vector<std::string> used, known = kOwnTokens;
  for (const Axis& axis : axes) known.push_back(axis.key);
  for_each_token(
      spec.command->line, [](char) {}, [&](const std::string& name) { used.push_back(name); });
  for (const std::string& name : used)
    if (std::ranges::find(known, name) == known.end())
      throw ConfigError(fmt::format(
          "{}: command.line has {{{}}}, which is no key of the design{}; braces of its own are written twice",
          spec.origin, name, did_you_mean(name, known)));
  for (const Axis& axis : axes)
    if (axis.words) require_plain_words(axis);
  for (const Axis& axis : axes)
    if (std::ranges::find(used, axis.key) == used.end())
      throw ConfigError(fmt::format("{}: the design's key '{}' is not in command.line; write {{{}}} where it goes{}",
                                    axis.where, axis.key, axis.key, did_you_mean(axis.key, used)));
}

}  // namespace

void place_axes(EnsembleSpec& spec) {
  if (spec.simulate) place_simulator_axes(*spec.simulate, spec.design.axes);
  if (spec.train) place_training_axes(spec, spec.design.axes);
  if (spec.command) place_command_axes(spec, spec.design.axes);
}

std::string command_line(const EnsembleSpec& spec, Index member, const std::vector<double>& point) {
  std::string line;
  const auto value_of = [&](const std::string& name) -> std::string {
    if (name == "member") return std::to_string(member);
    if (name == "seed") return std::to_string(spec.seed);
    if (name == "output") return spec.command->output;
    for (std::size_t k = 0; k < point.size(); ++k)
      if (spec.design.axes[k].key == name) return spec.design.axes[k].text(point[k]);
    return name;
  };
  for_each_token(
      spec.command->line, [&](char c) { line += c; }, [&](const std::string& name) { line += value_of(name); });
  return line;
}

}  // namespace mrmf
