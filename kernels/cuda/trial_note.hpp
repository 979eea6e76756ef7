// The engine under trial, noted on disk: a crash inside cuDNN ends the process without an error that could be caught.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mrmf::cuda {

/// An engine and the kind of problem that it was tried for, as PlanCache::key has it.
struct EngineOfKind {
  std::string kind, engine;
};

/// A note beside the plans' file ("plans.json.trying-HOST-PID"), there as long as a trial lasts. Each process has its
/// own, as several ranks and jobs may keep plans in one file. It is a symbolic link that leads nowhere, whose target is
/// the text: there whole or not at all, and without a write that would have to be synced, since trials are many.
class TrialNote {
 public:
  /// Notes nothing where `plans` is empty; and where a note cannot be made, which is no reason to end a run.
  explicit TrialNote(const std::filesystem::path& plans);
  ~TrialNote() { strike_out(); }
  TrialNote(const TrialNote&) = delete;
  TrialNote& operator=(const TrialNote&) = delete;

  void trying(const EngineOfKind& tried);
  void strike_out();

 private:
  std::filesystem::path file_;  // empty: nothing is noted
  bool noted_ = false;
};

/// What processes left that ended within a trial: those of this host that are gone, and those of others whose note is
/// older than ten minutes, which no trial takes. Removes their notes.
std::vector<EngineOfKind> take_left_notes(const std::filesystem::path& plans);

}  // namespace mrmf::cuda
