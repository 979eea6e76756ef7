#include "layers/reach.hpp"

#include <algorithm>
#include <optional>

#include "layers/geometry.hpp"

namespace mrmf {
namespace {

/// Positions [first, end), maybe outside of the sample; none: nobody needs any.
struct Span1 {
  Index first = 0, end = 0;
  void add(const Span1& other) {
    if (other.first == other.end) return;
    *this = first == end ? other : Span1{std::min(first, other.first), std::max(end, other.end)};
  }
};

AxisWindow window_of(const LayerSpec& spec, std::size_t a) {
  if (spec.kind == LayerKind::local_contrast_norm) return {2 * spec.window[a] - 1, 1, spec.window[a] - 1};
  if (is_pool(spec.kind)) return {spec.window[a], spec.stride[a] != 0 ? spec.stride[a] : spec.window[a], 0};
  AxisWindow window{(spec.window[a] - 1) * spec.dilation[a] + 1, std::max<Index>(1, spec.stride[a]),
                    spec.pad_before[a]};
  if (spec.same_padding) window.before = std::max<Index>(0, window.reach - window.stride) / 2;
  return window;
}

// Positions of the input in one of the output, as numerator and denominator.
std::pair<Index, Index> scale_of(const LayerSpec& spec, std::size_t a) {
  if (spec.kind == LayerKind::upsample) return {1, spec.window[a]};
  if (spec.kind == LayerKind::conv_transpose) return {1, window_of(spec, a).stride};
  if (spec.kind == LayerKind::conv || is_pool(spec.kind)) return {window_of(spec, a).stride, 1};
  return {1, 1};
}

Span1 needs(const LayerSpec& spec, std::size_t a, const Span1& out) {
  if (facts_of(spec.kind).field != LayerField::window) return out;
  if (spec.kind == LayerKind::upsample) {
    const Index factor = spec.window[a], margin = spec.mode == UpsampleKind::linear && factor > 1 ? 1 : 0;
    return {floor_div(out.first, factor) - margin, floor_div(out.end - 1, factor) + 1 + margin};
  }
  const AxisWindow w = window_of(spec, a);
  if (spec.kind == LayerKind::conv_transpose)
    return {-floor_div(-(out.first + w.before - w.reach + 1), w.stride),
            floor_div(out.end - 1 + w.before, w.stride) + 1};
  return {out.first * w.stride - w.before, (out.end - 1) * w.stride - w.before + w.reach};
}

}  // namespace

Reach reach_of(const std::vector<LayerSpec>& layers) {
  Reach reach;
  const Wiring wiring = connect(layers);
  for (const LayerSpec& spec : layers) reach.whole = reach.whole || facts_of(spec.kind).field == LayerField::all;
  for (std::size_t a = 0; a < 3; ++a) {
    std::vector<std::pair<Index, Index>> scales(layers.size() + 1, {1, 1});
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto [up, down] = scale_of(layers[i], a);
      const auto& from = scales[wiring[i].front()];
      scales[i + 1] = {from.first * up, from.second * down};
      const auto [numerator, denominator] = scales[i + 1];
      if (numerator % denominator == 0) reach.step[a] = std::max(reach.step[a], numerator / denominator);
    }
    std::vector<Span1> needed(layers.size() + 1);
    needed.back() = {0, reach.step[a]};
    for (std::size_t i = layers.size(); i-- > 0;)
      for (const std::size_t input : wiring[i])
        if (needed[i + 1].first < needed[i + 1].end) needed[input].add(needs(layers[i], a, needed[i + 1]));
    const Index step = reach.step[a];
    const auto steps = [&](Index positions) { return (std::max<Index>(0, positions) + step - 1) / step * step; };
    reach.before[a] = steps(-needed.front().first);
    reach.after[a] = steps(needed.front().end - step);
  }
  return reach;
}

}  // namespace mrmf
