// Which kernels the CPU backend takes for a convolution or a dense layer: fixed ones, or those that were the fastest
// when they were timed on this machine. Timing happens before training, in one place
// (src/training/cpu_kernel_autotuning.hpp); while a network is built, the backend only looks up what was chosen.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/backend.hpp"

namespace mrmf::cpu {

/// A convolution to choose kernels for: alone, behind the batch norm of the network's input, or with max pooling and
/// ReLU behind it. A dense layer is one of a single position.
struct ConvProblem {
  enum class Kind { conv, norm_conv, conv_pool, dense };
  Kind kind = Kind::conv;
  ConvGeometry geometry{};
  Index rows = 1;
  int threads = 1;
  Extent window{1, 1, 1};  ///< the pooling's window

  /// In one line: the kind, then numbers.
  std::string text() const;
  /// None unless the text is a problem's.
  static std::optional<ConvProblem> parse(const std::string& text);
};

/// The kernels of a problem by name (kernels/cpu/backend.cpp): one name, or of a convolution alone or a dense layer
/// one for each of forward, data gradient and weight gradient. And what was gained by them.
struct KernelChoice {
  std::string kernels;           ///< empty: the fixed ones, because trials could not tell
  double fixed = 0, chosen = 0;  ///< seconds of all passes by the fixed kernels, and by these; 0: not timed
};

/// What was chosen for each problem, and which problems were met without a choice.
class KernelChoices {
 public:
  /// `file`: where the user keeps choices from run to run; empty: nowhere. It is only remembered here.
  explicit KernelChoices(std::string file = {}) : file_(std::move(file)) {}
  const std::string& file() const { return file_; }

  /// Null: none, so the fixed kernels serve. Remembers the question.
  const KernelChoice* find(const ConvProblem& problem);
  /// Forgets the questions until now: those of networks that were built for other ends than to run.
  void forget_questions() { asked_.clear(); }
  void put(const std::string& problem, KernelChoice choice);
  void drop(const std::string& problem) { choices_.erase(problem); }
  /// Problems that were asked for, and those of them that have no choice.
  std::set<std::string> asked() const;
  std::set<std::string> open() const;
  const std::map<std::string, KernelChoice>& all() const { return choices_; }

  /// A line for each choice.
  std::string text() const;
  /// Adds the choices of such a text. False, and nothing is added, where it is none.
  bool add(std::string_view text);

 private:
  std::string file_;
  std::map<std::string, KernelChoice> choices_;
  std::map<std::string, int> asked_;  // how often, less than once where all are run in one pass with others
};

/// A CPU backend that looks its kernels up in choices of its own, at first none. Otherwise as make_cpu_backend().
std::unique_ptr<Backend> make_choosing_backend(int threads, Precision precision = Precision::fp32,
                                               KernelChoices choices = KernelChoices());
/// Whether a CPU backend may round what it multiplies: it was asked to, and the processor can.
bool rounds_to_bf16(const Backend& backend);
/// The choices of such a backend; null of any other, which always takes fixed kernels.
KernelChoices* kernel_choices(Backend& backend);
/// Whether this backend can make all kernels of a choice: another processor's it cannot. The fixed ones always serve.
bool has_kernels(Backend& backend, const ConvProblem& problem, const KernelChoice& choice);
/// Whether there is enough work to time. What takes some microseconds is decided by what ran before it: no trial by
/// itself can tell.
bool worth_timing(const ConvProblem& problem);
/// How many of the problem's rows a trial has: enough for some milliseconds, and for every thread if there are as many.
Index rows_in_trial(const ConvProblem& problem);
/// Times the kernels that can solve the problem, on so many of its rows, and of its planes, as take some milliseconds.
/// The fixed ones, not timed, where only these serve or there is too little work. None where the machine is too busy to
/// tell, a trial would take too long or too much memory, or the problem is for another number of threads than the
/// backend's.
std::optional<KernelChoice> time_kernels(Backend& backend, const ConvProblem& problem);

}  // namespace mrmf::cpu
