// The engine under trial, noted on disk: a crash inside cuDNN ends the process without an error that could be caught.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mrmf::cuda {

/// An engine and the kind of problem that it was tried for, as PlanCache::key has it.
struct EngineOfKind {
  std::string kind, engine;
};

/// A file beside the plans' ("plans.json.trying-HOST-PID"), there as long as a trial lasts. Each process has its own,
/// as several ranks and jobs may keep plans in one file.
class TrialNote {
 public:
  using ReplaceFile = std::function<void(const std::string& path, std::string_view text)>;

  /// Notes nothing where `plans` is empty or `replace` unset; and where a note cannot be written, which is no reason to
  /// end a run.
  TrialNote(const std::filesystem::path& plans, ReplaceFile replace);
  ~TrialNote() { strike_out(); }
  TrialNote(const TrialNote&) = delete;
  TrialNote& operator=(const TrialNote&) = delete;

  void trying(const EngineOfKind& tried);
  void strike_out();

 private:
  std::filesystem::path file_;  // empty: nothing is noted
  ReplaceFile replace_;
  bool written_ = false;
};

/// What processes left that ended within a trial: those of this host that are gone, and those of others whose note is
/// older than ten minutes, which no trial takes. Removes their notes.
std::vector<EngineOfKind> take_left_notes(const std::filesystem::path& plans);

}  // namespace mrmf::cuda
