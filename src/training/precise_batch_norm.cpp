#include "src/training/precise_batch_norm.hpp"

#include <algorithm>

#include "kernels/check.hpp"

namespace mrmf {

PreciseBatchNorm::PreciseBatchNorm(Backend& backend, Model& model, const std::vector<LayerSpec>& layers)
    : backend_(backend), model_(model), momenta_(model.state().size()), sums_(momenta_.size()), read_(momenta_.size()) {
  const std::vector<Entry>& entries = model.network().entries();
  MRMF_CHECK(entries.size() == layers.size(), "another network's layers");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto first = momenta_.begin() + entries[i].state.first;
    std::fill(first, first + entries[i].state.count, layers[i].momentum);
  }
}

bool PreciseBatchNorm::any() const { return !momenta_.empty(); }

// From zero, a running average becomes momentum * the batch's own statistics.
void PreciseBatchNorm::before() { backend_.fill(model_.state(), 0); }

void PreciseBatchNorm::after() {
  backend_.read(model_.state(), read_);
  for (std::size_t i = 0; i < sums_.size(); ++i)
    if (momenta_[i] > 0) sums_[i] += read_[i] / momenta_[i];
  ++batches_;
}

void PreciseBatchNorm::finish() {
  MRMF_CHECK(batches_ > 0, "statistics of no batch");
  for (std::size_t i = 0; i < sums_.size(); ++i) read_[i] = static_cast<float>(sums_[i] / batches_);
  backend_.write(read_, model_.state());
}

}  // namespace mrmf
