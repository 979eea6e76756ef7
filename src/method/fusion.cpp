// Model fusion (paper section 3.2): the dense model takes over the coarse model's layers. Declared in pipeline.hpp.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "layers/stem.hpp"
#include "src/method/pipeline.hpp"
#include "src/run/model_file.hpp"

namespace mrmf {
namespace {

struct Tap {
  Index low = 0, high = 0;
  float weight = 0;  // weight of high
};

std::vector<Tap> taps(Index from, Index to) {
  std::vector<Tap> result(static_cast<std::size_t>(to));
  for (Index i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    const double clamped = std::clamp(centre, 0.0, static_cast<double>(from - 1));
    const auto low = static_cast<Index>(std::floor(clamped));
    result[static_cast<std::size_t>(i)] = {low, std::min(low + 1, from - 1),
                                           static_cast<float>(clamped - static_cast<double>(low))};
  }
  return result;
}

// Resamples the middle index of x (outer, from, inner) into y (outer, to, inner).
std::vector<float> resample_axis(const std::vector<float>& x, Index outer, Index from, Index to, Index inner) {
  std::vector<float> y(static_cast<std::size_t>(outer * to * inner));
  const std::vector<Tap> at = taps(from, to);
  for (Index o = 0; o < outer; ++o)
    for (Index i = 0; i < to; ++i) {
      const Tap& tap = at[static_cast<std::size_t>(i)];
      const float* low = x.data() + (o * from + tap.low) * inner;
      const float* high = x.data() + (o * from + tap.high) * inner;
      float* out = y.data() + (o * to + i) * inner;
      for (Index k = 0; k < inner; ++k) out[k] = low[k] + tap.weight * (high[k] - low[k]);
    }
  return y;
}

// The input of the flatten whose vector layer i reads, through layers that keep its order; none where there is no such
// flatten, or several outputs come together on the way.
std::optional<Shape> flattened(const Network& network, std::size_t i) {
  for (;;) {
    const std::vector<std::size_t>& reads = network.wiring()[i];
    if (reads.size() != 1 || reads[0] == 0) return std::nullopt;
    i = reads[0] - 1;
    const LayerEntry& entry = network.entry(i);
    if (entry.kind == LayerKind::flatten) return entry.input;
    if (entry.kind == LayerKind::dense) return std::nullopt;
  }
}

Span slice(Span arena, const ArenaSpan& span, Index offset, Index count) {
  return arena.subspan(static_cast<std::size_t>(span.first + offset), static_cast<std::size_t>(count));
}
ConstSpan slice(ConstSpan arena, const ArenaSpan& span, Index offset, Index count) {
  return arena.subspan(static_cast<std::size_t>(span.first + offset), static_cast<std::size_t>(count));
}

const ArenaSpan& span_of(const LayerEntry& entry, Content content) {
  return content == Content::state ? entry.state : entry.params;
}

// Whether layer i is a dense layer or batch norm over the flattened vector, whose length depends on the resolution.
bool sized_by_positions(const TopTransfer& networks, std::size_t i) {
  const LayerEntry& from = networks.coarse.entry(i);
  const LayerEntry& to = networks.dense.entry(i);
  const std::optional<Shape> flat_from = flattened(networks.coarse, i), flat_to = flattened(networks.dense, i);
  return flat_from && flat_to && from.input.per_sample() == flat_from->per_sample() &&
         to.input.per_sample() == flat_to->per_sample() && flat_from->channels == flat_to->channels &&
         from.kind == to.kind &&
         (from.kind == LayerKind::batch_norm || from.output().per_sample() == to.output().per_sample()) &&
         (from.kind == LayerKind::dense || from.kind == LayerKind::batch_norm);
}

bool equal(const TopTransfer& networks, std::size_t i) {
  return networks.coarse.entry(i).layer->signature() == networks.dense.entry(i).layer->signature();
}

const std::vector<NamedTensor>& tensors_of(const LayerEntry& entry, Content content) {
  return content == Content::state ? entry.footprint.state : entry.footprint.params;
}

void interpolate_layer(const TopTransfer& networks, std::size_t i, Content content, ConstSpan coarse, Span dense) {
  const LayerEntry& from = networks.coarse.entry(i);
  const LayerEntry& to = networks.dense.entry(i);
  const Shape flat_from = flattened(networks.coarse, i).value(), flat_to = flattened(networks.dense, i).value();
  const float shrink = static_cast<float>(flat_from.per_sample()) / static_cast<float>(flat_to.per_sample());
  const std::vector<NamedTensor>& parts_from = tensors_of(from, content);
  const std::vector<NamedTensor>& parts_to = tensors_of(to, content);
  Index at_from = 0, at_to = 0;
  for (std::size_t p = 0; p < parts_from.size(); ++p) {
    const Index count = parts_from[p].count();
    const ConstSpan x = slice(coarse, span_of(from, content), at_from, count);
    const Span y = slice(dense, span_of(to, content), at_to, parts_to[p].count());
    const float scale = from.kind == LayerKind::dense && content == Content::params ? shrink : 1.0F;
    if (parts_from[p].shape != parts_to[p].shape)  // the bias has the same shape in both
      resample({count / flat_from.per_sample(), flat_from.channels, flat_from.spatial, flat_to.spatial, scale}, x, y);
    else
      std::ranges::copy(x, y.begin());
    at_from += count;
    at_to += parts_to[p].count();
  }
}

// The span of parameters of a model in another arena of the same layout.
Span same_span(Model& model, Span params, Span arena) {
  return arena.subspan(static_cast<std::size_t>(params.data() - model.params().data()), params.size());
}

bool same_cut(const PartitionedWeights* a, const PartitionedWeights* b) {
  return a == nullptr || b == nullptr ? a == b : *a == *b;
}

// Whether the ranks cut the weights of the bottom alike in both models.
bool same_bottom_layout(ModelState& coarse, ModelState& dense) {
  for (std::size_t i = 0; i < coarse.model.network().size(); ++i)
    if (!coarse.model.network().entry(i).top &&
        !same_cut(coarse.model.layout().partitioned(i), dense.model.layout().partitioned(i)))
      return false;
  return true;
}

WholeWeights whole_weights(Backend& backend, ModelState& model_state) {
  return {backend, model_state.model.network(), model_state.model.layout(), model_state.sample_group};
}

// Swaps the bottom's spans of two arenas of parameters, or of moments, that are cut in different ways.
void swap_whole_bottoms(const WholeWeights& coarse, Span from, const WholeWeights& dense, Span to) {
  std::vector<float> a = coarse.read(from), b = dense.read(to);
  for (std::size_t i = 0; i < coarse.network.size(); ++i)
    if (const LayerEntry& entry = coarse.network.entry(i); !entry.top)
      std::ranges::swap_ranges(span_at(a, entry.params), span_at(b, dense.network.entry(i).params));
  coarse.write(a, from);
  dense.write(b, to);
}

void swap_whole_bottoms(Backend& backend, ModelState& coarse, ModelState& dense, bool moments) {
  const WholeWeights from = whole_weights(backend, coarse), to = whole_weights(backend, dense);
  swap_whole_bottoms(from, coarse.model.params(), to, dense.model.params());
  const std::vector<Span> coarse_moments = coarse.optimizer.moments(), dense_moments = dense.optimizer.moments();
  for (std::size_t i = 0; moments && i < coarse_moments.size(); ++i)
    swap_whole_bottoms(from, coarse_moments[i], to, dense_moments[i]);
  const std::vector<LayerGroup> coarse_groups = coarse.model.bottom(), dense_groups = dense.model.bottom();
  for (std::size_t g = 0; g < coarse_groups.size(); ++g) backend.swap(coarse_groups[g].state, dense_groups[g].state);
}

void swap_bottoms(Backend& backend, ModelState& coarse, ModelState& dense, bool moments) {
  if (!same_bottom_layout(coarse, dense)) return swap_whole_bottoms(backend, coarse, dense, moments);
  const std::vector<LayerGroup> from = coarse.model.bottom(), to = dense.model.bottom();
  const std::vector<Span> coarse_moments = coarse.optimizer.moments(), dense_moments = dense.optimizer.moments();
  for (std::size_t g = 0; g < from.size(); ++g) {
    backend.swap(from[g].params, to[g].params);
    backend.swap(from[g].state, to[g].state);
    for (std::size_t i = 0; moments && i < coarse_moments.size(); ++i)
      backend.swap(same_span(coarse.model, from[g].params, coarse_moments[i]),
                   same_span(dense.model, to[g].params, dense_moments[i]));
  }
}

}  // namespace

void resample(const Resample& how, ConstSpan x, Span y) {
  std::vector<float> values(x.begin(), x.end());
  Extent now = how.from;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    Index outer = how.rows, inner = how.channels;
    for (std::size_t a = 0; a < axis; ++a) outer *= now[a];
    for (std::size_t a = axis + 1; a < 3; ++a) inner *= now[a];
    values = resample_axis(values, outer, how.from[axis], how.to[axis], inner);
    now[axis] = how.to[axis];
  }
  MRMF_CHECK(values.size() == y.size(), "resampling to a span of another size");
  std::ranges::transform(values, y.begin(), [&](float v) { return how.scale * v; });
}

void require_transferable(const TopTransfer& networks) {
  for (std::size_t i = 0; i < networks.coarse.size(); ++i)
    if (networks.coarse.entry(i).top && !equal(networks, i) && !sized_by_positions(networks, i))
      throw ConfigError("method.top = \"interpolated\": layer " + networks.dense.entry(i).name + " (" +
                        networks.coarse.entry(i).layer->signature() + " and " +
                        networks.dense.entry(i).layer->signature() +
                        ") is neither equal at both resolutions nor sized by the flattened positions; use " +
                        "top = \"dense\" or \"fresh\"");
}

void transfer_top(const TopTransfer& networks, Content content, ConstSpan coarse, Span dense) {
  if (!networks.only_matching) require_transferable(networks);
  for (std::size_t i = 0; i < networks.coarse.size(); ++i) {
    const LayerEntry& coarse_entry = networks.coarse.entry(i);
    if (!coarse_entry.top) continue;
    const LayerEntry& dense_entry = networks.dense.entry(i);
    if (equal(networks, i)) {
      const ArenaSpan& span = span_of(coarse_entry, content);
      std::ranges::copy(slice(coarse, span, 0, span.count),
                        slice(dense, span_of(dense_entry, content), 0, span.count).begin());
    } else if (!networks.only_matching) {
      interpolate_layer(networks, i, content, coarse, dense);
    }
  }
}

namespace {

// The layers fit by themselves; the output is the coarse network's.
void require_no_positions(const Network& finer) {
  if (finer.output().axes == 0) return;
  throw ConfigError("method.top = \"stem\" keeps the coarse network's output, which is " + to_string(finer.output()) +
                    ": labels with positions are finer there; use method.top = \"interpolated\"");
}

}  // namespace

void require_fusible(const Network& coarse, const Network& dense, const Fusion& fusion) {
  if (fusion.top == TopRule::stem) return require_no_positions(dense);
  MRMF_CHECK(std::ranges::equal(coarse.entries(), dense.entries(), {}, &LayerEntry::top, &LayerEntry::top),
             "models of different lists");
  const auto transferred = [](const LayerEntry& e) { return !e.top && e.params.count + e.state.count > 0; };
  if (!fusion.matching && fusion.top != TopRule::interpolated && std::ranges::none_of(coarse.entries(), transferred))
    throw ConfigError(
        "no layer of the bottom has parameters, so a fusion transfers nothing; name layers that have in model.bottom, "
        "set model.cut to a later layer that divides no branch, or use method.name = \"baseline\" or "
        "\"progressive\"");
  for (std::size_t i = 0; i < coarse.size(); ++i) {
    const LayerEntry& from = coarse.entry(i);
    if (from.top) continue;
    const std::string a = from.layer->signature(), b = dense.entry(i).layer->signature();
    if (a != b)
      throw ConfigError("layer " + from.name + " is of the bottom and differs between the resolutions (" + a + " and " +
                        b + "), so it cannot be transferred; set model.cut to " + from.name +
                        " or a layer before it, or leave it out of model.bottom");
  }
  if (!fusion.matching && fusion.top == TopRule::interpolated) require_transferable({coarse, dense});
}

namespace {

// Changes the dense model's arenas by the coarse one's: `change(content, coarse, dense)` gets whole ones in the host's
// memory.
template <class Change>
void change_arenas(Backend& backend, ModelState& coarse, ModelState& dense, bool moments, const Change& change) {
  const WholeWeights from = whole_weights(backend, coarse), to = whole_weights(backend, dense);
  const auto transfer = [&](Content content, ConstSpan of_coarse, Span of_dense) {
    std::vector<float> values = to.read(of_dense);
    change(content, from.read(of_coarse), values);
    to.write(values, of_dense);
  };
  transfer(Content::params, coarse.model.params(), dense.model.params());
  const std::vector<Span> of_coarse = coarse.optimizer.moments(), of_dense = dense.optimizer.moments();
  for (std::size_t i = 0; moments && i < of_coarse.size(); ++i) transfer(Content::moments, of_coarse[i], of_dense[i]);
  std::vector<float> state(coarse.model.state().size()), into(dense.model.state().size());
  backend.read(coarse.model.state(), state);
  backend.read(dense.model.state(), into);
  change(Content::state, state, into);
  backend.write(into, dense.model.state());
}

void transfer_tops(Backend& backend, ModelState& coarse, ModelState& dense, bool only_matching, bool moments) {
  const TopTransfer networks{coarse.model.network(), dense.model.network(), only_matching};
  change_arenas(backend, coarse, dense, moments, [&](Content content, ConstSpan of_coarse, Span of_dense) {
    transfer_top(networks, content, of_coarse, of_dense);
  });
}

void put_behind_stem(Backend& backend, ModelState& coarse, ModelState& finer, bool moments) {
  const StemNetworks networks{coarse.model.network(), finer.model.network()};
  change_arenas(backend, coarse, finer, moments, [&](Content content, ConstSpan of_coarse, Span of_finer) {
    if (content == Content::params)
      give_params_behind_stem(networks, of_coarse, of_finer);
    else if (content == Content::moments)
      give_moments_behind_stem(networks, of_coarse, of_finer);
    else
      give_state_behind_stem(networks, of_coarse, of_finer);
  });
  if (moments)
    finer.optimizer.set_ages({0, coarse.optimizer.ages().top});
  else
    finer.optimizer.reset();
}

}  // namespace

void fuse(Backend& backend, ModelState& coarse, ModelState& dense, const Fusion& fusion) {
  require_fusible(coarse.model.network(), dense.model.network(), fusion);
  if (fusion.top == TopRule::stem)
    return put_behind_stem(backend, coarse, dense, fusion.moments == MomentTransfer::carry);
  const bool carry = fusion.moments == MomentTransfer::carry;
  MRMF_CHECK(!carry || !fusion.matching, "moments of one age in layers that are carried over and layers that are not");
  swap_bottoms(backend, coarse, dense, carry);
  if (fusion.matching || fusion.top == TopRule::interpolated) {
    transfer_tops(backend, coarse, dense, fusion.matching, carry);
  }
  const MomentAges from_coarse = coarse.optimizer.ages(), own = dense.optimizer.ages();
  if (carry)
    dense.optimizer.set_ages({from_coarse.bottom, fusion.top == TopRule::interpolated ? from_coarse.top : own.top});
  else
    dense.optimizer.reset();
}

}  // namespace mrmf
