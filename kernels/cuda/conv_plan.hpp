// Convolutions as cuDNN plans: the problems, cuDNN's ways to do them, one chosen way, and measured plans kept on disk.
// Plans can be made for a described device and need no GPU until they run.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn.hpp"
#include "kernels/cuda/module.hpp"
#include "kernels/operations.hpp"

namespace mrmf::cuda {

enum class ConvPass { forward, backward_data, backward_weights };

/// One convolution. `geometry` has padded channels: multiples of 8 for bf16, of 4 otherwise. Without the padding cuDNN
/// copies tensors into a large workspace.
struct ConvProblem {
  ConvPass pass = ConvPass::forward;
  ConvGeometry geometry;
  Index rows = 1;
  Precision precision = Precision::fp32;
  bool bias = false;           ///< forward: adds fp32 bias[out_channels]
  bool deterministic = false;  ///< the same bits every time
};

/// "forward 16->32 k3x3x3 s1x1x1 p1x1x1+1x1x1 at 64x64x64, 8 rows, bf16, bias": equal exactly for equal problems.
std::string describe(const ConvProblem& problem);
/// "forward, bf16, bias": cuDNN numbers its engines alike for problems of one kind.
std::string kind_of(const ConvProblem& problem);

struct PlanLimits {
  std::size_t workspace = std::size_t{64} << 20;  ///< bytes; plans that want more are left out
  int candidates = 20;                            ///< most plans with precompiled kernels
  int compiled = 2;                               ///< most that need compiling, at about 0.4 s each
  std::set<std::string> avoid{};                  ///< ConvPlan::engine() of engines to leave out
  /// Told the engine before its plan is made, which may crash.
  std::function<void(const std::string& engine)> trying{};
};

/// Device memory, channels-last, aligned to 16 bytes: x (rows, in, in_channels), w (out_channels, kernel, in_channels)
/// and dy (rows, out, out_channels) in the precision's storage type. Pointers that a pass does not read may be null.
struct ConvPointers {
  const void* x = nullptr;
  const void* w = nullptr;
  const float* bias = nullptr;
  const void* dy = nullptr;
  void* result = nullptr;  ///< y, dx or dw in the storage type. Overwritten
};

/// One way to do one convolution, ready to run.
class ConvPlan {
 public:
  ConvPlan(const ConvProblem& problem, ExecutionPlan plan, std::string description);

  std::size_t workspace() const { return plan_.workspace(); }      ///< bytes of device memory that run() needs
  const std::string& description() const { return description_; }  ///< "engine 11, tensor cores": for tables and logs
  std::string engine() const;                                      ///< "engine 11", whatever its knobs
  bool adds_bias() const { return bias_; }  ///< whether a forward pass adds its bias: false where the caller must
  std::string json() const;                 ///< for conv_plan_from_json

  /// Queues the convolution on the handle's stream. Neither allocates device memory nor waits.
  void run(cudnnHandle_t handle, const ConvPointers& pointers, void* workspace) const;

 private:
  ConvPass pass_;
  bool bias_;
  ExecutionPlan plan_;
  std::string description_;
};

/// A plan from json() for the same problem, kind of device and cuDNN. Of a problem with a bias it may be one without.
/// FaultError when cuDNN does not accept it.
ConvPlan conv_plan_from_json(const ConvProblem& problem, const DeviceModel& device, const std::string& text);

/// The cuDNN operation graph of a problem. forward: y = conv(x, w) [+ bias]; backward data: dx; backward weights: dw,
/// all in the storage type.
Descriptor make_conv_graph(const ConvProblem& problem, const DeviceModel& device);

/// A pass's pointers with the tensor ids of make_conv_graph.
ExecutionPlan::Binding bind_conv(ConvPass pass, bool bias, const ConvPointers& pointers);

/// The engines that may do a convolution, in cuDNN's order of recommendation, before anything is compiled. Walks
/// through heuristic modes A, B and fallback. Leaves out repetitions, engines that the problem's precision or
/// determinism forbids, and those that want more workspace than allowed.
class ConvProposals {
 public:
  /// Borrows the problem and the device.
  ConvProposals(const ConvProblem& problem, const DeviceModel& device, std::size_t workspace);

  std::optional<EngineConfig> next();  ///< none at the end

  int seen() const { return seen_; }  ///< proposals so far, including those left out
  /// "engine 25, nondeterministic: ..."; empty if none
  const std::string& last_refusal() const { return last_refusal_; }
  void refuse(const EngineConfig& config, const std::string& reason);

 private:
  bool refill();
  std::string objection(const EngineConfig& config);

  const ConvProblem& problem_;
  const DeviceModel& device_;
  std::size_t workspace_;
  Descriptor graph_;
  std::size_t mode_ = 0;  ///< modes asked so far
  std::vector<EngineConfig> pending_;
  std::size_t position_ = 0;  ///< in pending_
  std::set<std::pair<std::int64_t, std::map<int, std::int64_t>>> known_;
  int seen_ = 0;
  std::string last_refusal_;
};

/// Supported plans, one at a time: each is made when it is asked for, so that nothing is compiled that is not tried.
class ConvCandidates {
 public:
  /// Borrows the device.
  ConvCandidates(const ConvProblem& problem, const DeviceModel& device, PlanLimits limits);
  ConvCandidates(const ConvCandidates&) = delete;
  ConvCandidates& operator=(const ConvCandidates&) = delete;

  const ConvProblem& problem() const { return problem_; }
  /// The next with a precompiled kernel, in the order of cuDNN's heuristics: mode A, then B, then fallback.
  std::optional<ConvPlan> next();
  /// The next of those that NVRTC compiles; ask when next() has no more.
  std::optional<ConvPlan> next_compiled();
  /// "3 proposals refused, the last: engine 25, nondeterministic: ..."
  std::string refusals() const;

 private:
  std::optional<ConvPlan> make(const EngineConfig& config);

  ConvProblem problem_;
  const DeviceModel& device_;
  PlanLimits limits_;
  ConvProposals proposals_;
  int given_ = 0;
  std::deque<EngineConfig> to_compile_;
};

struct KeptPlan {
  std::string plan;           ///< what ConvPlan::json() gave
  double microseconds = 0.0;  ///< measured on the device
  std::size_t workspace = 0;  ///< bytes
};

/// Measured plans kept on disk, so that a later run on the same kind of device neither compiles nor times again. Also
/// keeps the engines that broke the device, so that they are not tried again.
///
/// A JSON file of plans by problem, device name and cuDNN version; it keeps plans of other devices. A file that is
/// damaged, foreign or of another format is ignored without an error, and the plans are made anew.
class PlanCache {
 public:
  /// Reads the file if there is one. `device` is DeviceModel::key().
  PlanCache(std::filesystem::path file, std::string device);

  /// Why the file is not used; empty when it is, or when there is none yet.
  const std::string& ignored() const { return ignored_; }

  std::optional<KeptPlan> find(const std::string& problem) const;  ///< problem: describe(ConvProblem)
  void put(const std::string& problem, const KeptPlan& plan);

  /// Engines that left the device unusable, for a kind of problem ("forward, bf16").
  std::set<std::string> avoided(const std::string& kind) const;
  void avoid(const std::string& kind, const std::string& engine);
  /// "forward, bf16 on NVIDIA H200, cuDNN 9.19.0": a kind as the file has it, also for avoid_on.
  std::string key(const std::string& problem) const { return problem + " on " + device_; }
  void avoid_on(const std::string& key, const std::string& engine) { avoided_[key].insert(engine); }

  const std::filesystem::path& file() const { return file_; }
  std::string text() const;  ///< the file's new contents

 private:
  std::filesystem::path file_;
  std::string device_;
  std::string ignored_;
  std::map<std::string, KeptPlan> plans_;
  std::map<std::string, std::set<std::string>> avoided_;
};

// The engine under trial, noted on disk: a crash inside cuDNN ends the process without an error that could be caught.

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
