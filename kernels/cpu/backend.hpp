// The fast CPU backend: loops and kernels of our own over OpenMP threads, and oneDNN's primitives where these are
// faster. Private to this folder. Its name is "onednn", as configurations have it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/kernel_choice.hpp"

namespace mrmf::onednn {
class Context;
}

namespace mrmf::cpu {

class CpuBackend final : public Backend {
 public:
  /// Without choices the kernels are the fixed ones always.
  CpuBackend(int threads, Precision precision, std::optional<KernelChoices> choices = {});
  ~CpuBackend() override;

  std::string name() const override { return "onednn"; }
  std::string description() const override;
  Arena allocate(Index count) override { return make_arena(count); }
  Arena allocate_shared(Index count) override { return cpu::allocate_shared(*this, count); }
  bool accepts_slices() const override { return true; }
  MRMF_BACKEND_OPERATIONS(MRMF_OVERRIDE_OPERATION)

  int threads() const { return threads_; }
  Precision precision() const { return precision_; }
  bool in_bf16() const;  ///< whether factors may be rounded
  KernelChoices* choices() { return choices_ ? &*choices_ : nullptr; }
  /// A problem's kernels by their name (KernelChoice::kernels), or by several for the three passes of a convolution or
  /// a dense layer. Null where they do not serve, or where none have that name. requires: a problem of that kind.
  std::unique_ptr<WeightedOp> weighted_by(const std::string& kernels, const ConvProblem& problem);
  std::unique_ptr<NormConvOp> norm_conv_by(const std::string& kernels, const ConvProblem& problem,
                                           const NormSettings& settings);
  std::unique_ptr<ConvPoolOp> conv_pool_by(const std::string& kernels, const ConvProblem& problem);
  /// The kernels that a problem could have, by name, those that serve and those that do not: the fixed ones are the
  /// first that serve.
  std::vector<std::string> kernels_of(const ConvProblem& problem) const;

 private:
  bool onednn_in_bf16() const;  ///< whether those of oneDNN may be, too
  std::unique_ptr<WeightedOp> conv_by(const std::string& kernels, const ConvProblem& problem);
  std::vector<std::string> dense_kernels_of(const ConvProblem& problem) const;
  std::vector<std::string> norm_conv_kernels_of() const;
  std::vector<std::string> conv_pool_kernels_of(const ConvProblem& problem) const;
  std::unique_ptr<WeightedOp> dense_by(const std::string& kernels, const ConvProblem& problem);

  std::string instruction_set_;  // described before oneDNN is used
  Precision precision_;
  int wanted_, threads_;  // threads asked for, and those that compute
  SharedWorkspace workspace_;
  std::shared_ptr<const onednn::Context> context_;
  std::optional<KernelChoices> choices_;
};

}  // namespace mrmf::cpu
