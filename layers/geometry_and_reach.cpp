// The geometry of layers with windows, and how far a network of them looks.
#include "layers/geometry_and_reach.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace mrmf {
namespace {

Extent stride_of(const LayerSpec& spec, const Extent& otherwise) {
  Extent stride = otherwise;
  for (std::size_t a = 0; a < 3; ++a)
    if (spec.stride[a] != 0) stride[a] = spec.stride[a];
  return stride;
}

// "1 axis of positions and 48 channels"
std::string axes_text(const Shape& in) {
  return fmt::format("{} {} of positions and {} channel{}", in.axes, in.axes == 1 ? "axis" : "axes", in.channels,
                     in.channels == 1 ? "" : "s");
}

void require_window(const Shape& in, const LayerSpec& spec) {
  for (std::size_t a = 0; a < 3; ++a) {
    require(spec.window[a] >= 1 && spec.stride[a] >= 0, spec, "window and stride must be at least 1");
    require(spec.dilation[a] >= 1, spec, "dilation must be at least 1");
    const bool used = static_cast<int>(a) >= 3 - in.axes;
    require(used || spec.window[a] == 1, spec,
            fmt::format(
                "window {} is for more axes than its input {} has: {}; give at most {} number{}, or, if an axis is "
                "missing, store the samples with their channels as the last axis, 1 for a single one",
                to_string(spec.window, 3), to_string(in), axes_text(in), std::max(in.axes, 1), in.axes > 1 ? "s" : ""));
  }
}

// " with dilation 4 (9 positions)", or nothing.
std::string dilation_text(const ConvGeometry& g, int axes) {
  if (g.dilation == Extent{1, 1, 1}) return "";
  return fmt::format(" with dilation {} ({} positions)", to_string(g.dilation, axes), to_string(g.reach(), axes));
}

void require_fit(const Shape& in, const LayerSpec& spec, const Extent& reach, const Extent& padded,
                 const std::string& dilation = "") {
  for (std::size_t a = 0; a < 3; ++a)
    require(reach[a] <= padded[a], spec,
            fmt::format("window {}{} is larger than its input {}; use a smaller window, fewer layers or a finer "
                        "resolution",
                        to_string(spec.window, in.axes), dilation, to_string(in)));
}

/// A window that lies only in the padding would see nothing but zeros. On an axis that the data lack, the window is 1.
void require_pads(const Shape& in, const LayerSpec& spec, const ConvGeometry& g) {
  const Extent reach = g.reach();
  for (std::size_t a = 0; a < 3; ++a)
    for (const Index pad : {spec.pad_before[a], spec.pad_after[a]})
      require(pad >= 0 && pad < reach[a], spec,
              fmt::format("padding {} before and {} after must be at least 0 and below the window {}{}",
                          to_string(spec.pad_before, in.axes), to_string(spec.pad_after, in.axes),
                          to_string(spec.window, in.axes), dilation_text(g, in.axes)));
}

void pad_same(ConvGeometry& g) {
  const Extent reach = g.reach();
  for (std::size_t a = 0; a < 3; ++a) {
    const Index out = (g.in[a] + g.stride[a] - 1) / g.stride[a];
    const Index total = std::max<Index>(0, (out - 1) * g.stride[a] + reach[a] - g.in[a]);
    g.pad_before[a] = total / 2;
    g.pad_after[a] = total - total / 2;
  }
}

}  // namespace

void require(bool fact, const LayerSpec& spec, const std::string& what) {
  if (!fact) throw ConfigError((spec.name.empty() ? to_string(spec.kind) : spec.name) + ": " + what);
}

void require_within(const std::optional<Box>& counted, const Shape& in) {
  MRMF_CHECK(!counted || contains({.count = in.spatial}, *counted), "a batch norm counts positions that are not there");
}

std::string to_string(const Extent& extent, int axes) {
  return fmt::format("{}", fmt::join(extent.end() - std::max(axes, 1), extent.end(), "x"));
}

Shape output_shape(const Shape& in, const Extent& spatial, Index channels) {
  Shape shape = in;
  shape.spatial = spatial;
  shape.channels = channels;
  return shape;
}

namespace {

// Kernel, stride, dilation and the padding that is given by numbers.
ConvGeometry kernel_geometry(const Shape& in, const LayerSpec& spec) {
  require(spec.units >= 1, spec, fmt::format("{} output channels; give at least 1", spec.units));
  require_window(in, spec);
  ConvGeometry g{.kernel = spec.window, .stride = stride_of(spec, {1, 1, 1})};
  for (std::size_t a = 0; a < 3; ++a)
    if (spec.window[a] > 1) g.dilation[a] = spec.dilation[a];
  if (spec.same_padding) return g;
  require_pads(in, spec, g);
  g.pad_before = spec.pad_before;
  g.pad_after = spec.pad_after;
  return g;
}

}  // namespace

ConvGeometry conv_geometry(const Shape& in, const LayerSpec& spec) {
  ConvGeometry g = kernel_geometry(in, spec);
  g.in_channels = in.channels;
  g.out_channels = spec.units;
  g.in = in.spatial;
  g.bias = !spec.bias_in_norm;
  if (spec.same_padding) pad_same(g);
  Extent padded = in.spatial;
  for (std::size_t a = 0; a < 3; ++a) padded[a] += g.pad_before[a] + g.pad_after[a];
  require_fit(in, spec, g.reach(), padded, dilation_text(g, in.axes));
  return g;
}

ConvGeometry locally_connected_geometry(const Shape& in, const LayerSpec& spec) {
  require(in.axes > 0, spec, "its input " + to_string(in) + " has no positions; use dense");
  return conv_geometry(in, spec);
}

ConvGeometry conv_transpose_geometry(const Shape& in, const LayerSpec& spec) {
  ConvGeometry g = kernel_geometry(in, spec);
  g.in_channels = spec.units;
  g.out_channels = in.channels;
  const Extent reach = g.reach();
  for (std::size_t a = 0; a < 3; ++a) {
    g.in[a] = spec.same_padding ? in.spatial[a] * g.stride[a]
                                : (in.spatial[a] - 1) * g.stride[a] + reach[a] - g.pad_before[a] - g.pad_after[a];
    require(g.in[a] >= 1, spec,
            fmt::format("padding {} before and {} after leaves nothing of the output for its input {}",
                        to_string(g.pad_before, in.axes), to_string(g.pad_after, in.axes), to_string(in)));
  }
  if (spec.same_padding) pad_same(g);
  return g;
}

PoolGeometry pool_geometry(const Shape& in, const LayerSpec& spec) {
  require_window(in, spec);
  require(spec.pad_before == Extent{} && spec.pad_after == Extent{}, spec, "pooling takes no padding");
  require_fit(in, spec, spec.window, in.spatial);
  const PoolKind kind = spec.kind == LayerKind::max_pool ? PoolKind::max : PoolKind::average;
  require(kind == PoolKind::average || product(spec.window) <= 256, spec,
          fmt::format("window {} has {} positions; a max pooling window has at most 256",
                      to_string(spec.window, in.axes), product(spec.window)));
  return {kind, in.channels, in.spatial, spec.window, stride_of(spec, spec.window)};
}

Index contrast_reach(const LayerSpec& spec, std::size_t axis) { return spec.window[axis] / 2 * 2; }

ContrastGeometry contrast_geometry(const Shape& in, const LayerSpec& spec, const LayerPosition& position) {
  require(in.axes > 0, spec, "its input " + to_string(in) + " has no positions; use layer_norm");
  require_window(in, spec);
  for (std::size_t a = 0; a < 3; ++a)
    require(spec.window[a] % 2 == 1 && spec.window[a] <= kMostContrastWindow, spec,
            fmt::format("window {} must be odd along every axis, so that it has a middle, and at most {}",
                        to_string(spec.window, in.axes), kMostContrastWindow));
  ContrastGeometry g{.channels = in.channels, .in = in.spatial, .window = spec.window, .floor = spec.floor};
  g.sample = g.out.count = in.spatial;
  if (position.sample_extent == Extent{0, 0, 0}) return g;
  g.sample = position.sample_extent, g.out.count = position.output_extent;
  for (std::size_t a = 0; a < 3; ++a) {
    g.first[a] = std::max<Index>(0, position.output_begin[a] - contrast_reach(spec, a));
    g.out.first[a] = position.output_begin[a] - g.first[a];
  }
  MRMF_CHECK(contains({.count = g.in}, g.out), "local contrast normalisation of positions that are not there");
  return g;
}

UpsampleGeometry upsample_geometry(const Shape& in, const LayerSpec& spec) {
  require(in.axes > 0, spec, "its input " + to_string(in) + " has no positions; put it before the flatten");
  require_window(in, spec);
  return {spec.mode, in.channels, in.spatial, spec.window};
}

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
