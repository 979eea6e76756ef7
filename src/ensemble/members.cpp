#include "src/ensemble/members.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "io/files/work_folder.hpp"
#include "io/hdf5/file.hpp"
#include "kernels/errors.hpp"
#include "src/config/toml.hpp"
#include "src/ensemble/child.hpp"
#include "src/run/records.hpp"
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

}  // namespace mrmf
