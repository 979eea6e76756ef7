#include "layers/parameter_layout.hpp"

#include <algorithm>
#include <utility>

namespace mrmf {
namespace {

/// Calls visit(offset in the whole weights, in the box's own, floats) for features that lie side by side in both.
template <class Visit>
void for_runs(const Shape& whole, const Box& box, const Visit& visit) {
  const Extent& s = whole.spatial;
  MRMF_CHECK(contains({.count = s}, box), "columns of another layer's weights");
  const Index floats = box.count[2] * whole.channels;
  Index own = 0;
  for (Index row = 0; row < whole.n; ++row)
    for (Index i = box.first[0]; i < box.end(0); ++i)
      for (Index j = box.first[1]; j < box.end(1); ++j, own += floats)
        visit((((row * s[0] + i) * s[1] + j) * s[2] + box.first[2]) * whole.channels, own, floats);
}

}  // namespace

void PartitionedWeights::take(ConstSpan all, Span own) const {
  MRMF_CHECK(std::ssize(all) == whole.count() && std::ssize(own) == count(rank), "weights of another layer");
  for_runs(whole, boxes.at(static_cast<std::size_t>(rank)),
           [&](Index from, Index to, Index floats) { std::copy_n(all.data() + from, floats, own.data() + to); });
}

void PartitionedWeights::put(int of_rank, ConstSpan own, Span all) const {
  MRMF_CHECK(std::ssize(all) == whole.count() && std::ssize(own) == count(of_rank), "weights of another layer");
  for_runs(whole, boxes.at(static_cast<std::size_t>(of_rank)),
           [&](Index to, Index from, Index floats) { std::copy_n(own.data() + from, floats, all.data() + to); });
}

ParameterLayout::ParameterLayout(const Network& network, std::vector<PartitionedWeights> cut,
                                 std::vector<bool> in_place)
    : cut_(std::move(cut)), in_place_(std::move(in_place)) {
  for (std::size_t i = 0; i < network.size(); ++i) {
    ArenaSpan span{size_, network.entry(i).params.count};
    if (const std::vector<PartitionedTensor> parts = partitioned_tensors(i); !parts.empty()) {
      cuts_.push_back({size_, behind_partitioned(i)});
      if (!this->in_place(i)) gradient_cuts_.push_back({gradients_size_, behind_partitioned(i)});
      span.count += behind_partitioned(i) - parts.back().whole.end();
    }
    size_ = aligned(span.end());
    param_spans_.push_back(span);
    gradients_.push_back({gradients_size_, this->in_place(i) ? 0 : span.count});
    if (gradients_.back().count == 0) continue;
    if (with_gradients_.empty() || with_gradients_.back().params.end() != span.first)
      with_gradients_.push_back({{span.first, 0}, gradients_size_});
    with_gradients_.back().params.count = size_ - with_gradients_.back().params.first;
    gradients_size_ = aligned(gradients_.back().end());
  }
}

const PartitionedWeights* ParameterLayout::partitioned(std::size_t layer, std::size_t tensor) const {
  const auto found = std::ranges::find_if(
      cut_, [&](const PartitionedWeights& one) { return one.layer == layer && one.tensor == tensor; });
  return found == cut_.end() ? nullptr : &*found;
}

std::vector<ParameterLayout::PartitionedTensor> ParameterLayout::partitioned_tensors(std::size_t layer) const {
  std::vector<PartitionedTensor> parts;
  PartitionedTensor next{nullptr, {}, {}};
  while ((next.cut = partitioned(layer, parts.size())) != nullptr) {
    next.own = {next.own.end(), next.cut->count(next.cut->rank)};
    next.whole = {next.whole.end(), next.cut->whole.count()};
    parts.push_back(next);
  }
  return parts;
}

Index ParameterLayout::behind_partitioned(std::size_t layer) const {
  const std::vector<PartitionedTensor> parts = partitioned_tensors(layer);
  MRMF_CHECK(!parts.empty(), "a layer with whole weights");
  return aligned(parts.back().own.end());
}

std::vector<ArenaSpan> ParameterLayout::counted() const {
  const bool first = cut_.empty() || cut_.front().rank == 0;
  return first ? std::vector<ArenaSpan>{{0, size_}} : cuts_;
}

void ParameterLayout::take(std::size_t layer, ConstSpan all, Span own) const {
  const std::vector<PartitionedTensor> parts = partitioned_tensors(layer);
  if (parts.empty()) {
    std::ranges::copy(all, own.begin());
    return;
  }
  for (const PartitionedTensor& part : parts)
    part.cut->take(all.subspan(static_cast<std::size_t>(part.whole.first), static_cast<std::size_t>(part.whole.count)),
                   span_at(own, part.own));
  const auto rest = static_cast<std::size_t>(parts.back().whole.end());
  std::ranges::copy(all.subspan(rest), own.subspan(static_cast<std::size_t>(behind_partitioned(layer))).begin());
}

}  // namespace mrmf
