#include "src/training/worker_arrays.hpp"

#include <algorithm>

namespace mrmf {

void WorkerArrays::prepare(Backend& backend, const SumSettings& sums, const WorkerCount& count, Span momentum) {
  // One worker alone, too, so that a checkpoint has them on any number of ranks.
  const bool local = sums.adds_directions(), feedback = sums.error_feedback;
  const auto own = static_cast<std::size_t>(count.own);
  if (count_ == count && momenta_.size() == (local ? own : 0) && residuals_.size() == (feedback ? own : 0)) return;
  count_ = count;
  arenas_.clear(), momenta_.clear(), residuals_.clear();
  const auto make = [&] { return arenas_.emplace_back(backend.allocate(std::ssize(momentum))).span(); };
  for (std::size_t i = 0; local && i < own; ++i) momenta_.push_back(i == 0 ? momentum : make());
  for (std::size_t i = 0; feedback && i < own; ++i) residuals_.push_back(make());
  sum_residual_ = feedback ? make() : Span{};
}

void WorkerArrays::begin(Backend& backend) {
  for (std::size_t i = 1; i < momenta_.size(); ++i) std::ranges::copy(momenta_.front(), momenta_[i].begin());
  for (const Span residual : residuals_) backend.fill(residual, 0);
  if (!sum_residual_.empty()) backend.fill(sum_residual_, 0);
}

std::vector<Span> WorkerArrays::all() const {
  std::vector<Span> spans(momenta_);
  spans.insert(spans.end(), residuals_.begin(), residuals_.end());
  if (!sum_residual_.empty()) spans.push_back(sum_residual_);
  return spans;
}

}  // namespace mrmf
