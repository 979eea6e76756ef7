#include "kernels/onednn/norm.hpp"

#include <cmath>

#include "kernels/onednn/instruction_set.hpp"

namespace mrmf::onednn {

const norm_loops::Kernels& norm_kernels() {
  switch (instruction_set()) {
    case InstructionSet::avx512: return *norm_loops::avx512_kernels();
    case InstructionSet::avx2: return *norm_loops::avx2_kernels();
    case InstructionSet::generic: break;
  }
  return *norm_loops::generic_kernels();
}

NormSums::NormSums(const NormSettings& settings)
    : settings_(settings),
      channels_(settings.channels),
      threads_(omp_get_max_threads()),
      partial_(static_cast<std::size_t>(threads_ * 2 * channels_)),
      sums_(static_cast<std::size_t>(2 * channels_ + 1)),
      factor_(static_cast<std::size_t>(channels_)),
      offset_(factor_.size()),
      slope_(factor_.size()) {}

float NormSums::inverse_root(double variance) const {
  return static_cast<float>(1.0 / std::sqrt(variance + double{settings_.epsilon}));
}

/// Leaves the sums of x and of its squares. The loops sum distances from the first row, which keeps their floats near
/// zero; what that row contributed is added back in double.
void NormSums::add_moments(ConstSpan x) {
  const Index rows = std::ssize(x) / channels_;
  const float* shift = x.data();
  add_up(rows, [&](Index first, Index last, double* sums) {
    norm_kernels().moments(last - first, channels_, x.data() + first * channels_, shift, sums);
  });
  const auto count = static_cast<double>(rows);
  for (Index c = 0; c < channels_; ++c) {
    const double from = shift[c], sum = sums_[c];
    sums_[c] = sum + count * from;
    sums_[channels_ + c] += from * (2 * sum + count * from);
  }
  sums_.back() = count;
}

void NormSums::update_statistics(const Step& step, ConstSpan x, const NormMemory& memory) {
  add_moments(x);
  if (step.ranks != nullptr) step.ranks->sum(sums_);
  const double count = sums_.back(), unbias = count / std::max(count - 1.0, 1.0);
  const auto drift = [this](float& running, double batch) {
    running = static_cast<float>(running + double{settings_.momentum} * (batch - running));
  };
  for (Index c = 0; c < channels_; ++c) {
    const double mean = sums_[c] / count;
    const double variance = std::max(sums_[channels_ + c] / count - mean * mean, 0.0);
    memory.mean[c] = static_cast<float>(mean);
    memory.inverse_deviation[c] = inverse_root(variance);
    drift(memory.running_mean[c], mean);
    drift(memory.running_variance[c], variance * unbias);
  }
}

norm_loops::Terms NormSums::terms(const Step& step, const NormMemory& memory) {
  for (Index c = 0; c < channels_; ++c)
    factor_[c] = memory.gamma[c] *
                 (step.training ? memory.inverse_deviation[c] : inverse_root(double{memory.running_variance[c]}));
  return {(step.training ? memory.mean : memory.running_mean).data(), factor_.data(), memory.beta.data()};
}

void NormSums::parameter_gradients(const NormMemory& memory, Span dgamma, Span dbeta) const {
  for (Index c = 0; c < channels_; ++c) {
    dbeta[c] = static_cast<float>(sums_[c]);
    dgamma[c] = static_cast<float>(sums_[channels_ + c] * memory.inverse_deviation[c]);
  }
}

norm_loops::DataTerms NormSums::data_terms(const Step& step, Index rows, const NormMemory& memory) {
  sums_.back() = static_cast<double>(rows);
  if (step.ranks != nullptr) step.ranks->sum(sums_);
  const double count = sums_.back();
  for (Index c = 0; c < channels_; ++c) {
    const double inverse = memory.inverse_deviation[c];
    offset_[c] = static_cast<float>(sums_[c] / count);
    slope_[c] = static_cast<float>(sums_[channels_ + c] / count * inverse * inverse);
  }
  return {offset_.data(), slope_.data()};
}

}  // namespace mrmf::onednn
