// The presets with branches: U-Net and residual networks, for one to three axes.
#include <numeric>
#include <utility>

#include "src/config/presets.hpp"

namespace mrmf {
namespace {

using enum LayerKind;

/// A list of layers under construction. Sizes hold along every axis of the data.
class BranchedLayers {
 public:
  explicit BranchedLayers(NormKind norm) : norm_(norm) {}

  LayerSpec& add(LayerKind kind, const std::string& name) {
    LayerSpec& spec = layers_.emplace_back();
    spec.kind = kind;
    spec.name = name;
    return spec;
  }
  /// A convolution that keeps the positions, or keeps every second one.
  LayerSpec& conv(const std::string& name, Index filters, Index kernel, Index stride = 1) {
    LayerSpec& spec = add(LayerKind::conv, name);
    spec.units = filters;
    spec.initialiser = Initialiser::he;
    size(spec, kernel, stride);
    spec.pad_before = spec.pad_after = {0, 0, kernel / 2};
    spec.one_for_all.padding = true;
    return spec;
  }
  void norm(const std::string& name, Index channels) {
    constexpr Index groups = 8;  // as in the benchmark's U-Net
    LayerSpec& spec = add(norm_ == NormKind::group ? group_norm : batch_norm, name);
    if (norm_ == NormKind::group) spec.groups = std::gcd(groups, channels);
  }
  void conv_norm_relu(const std::string& block, const std::string& number, Index filters) {
    conv(block + "_conv" + number, filters, 3);
    norm(block + "_norm" + number, filters);
    add(relu, block + "_relu" + number);
  }
  static void size(LayerSpec& spec, Index window, Index stride) {
    spec.window = {1, 1, window};
    spec.stride = {1, 1, stride};
    spec.one_for_all = {.window = true, .stride = true};
  }
  std::vector<LayerSpec> take() { return std::move(layers_); }

 private:
  NormKind norm_;
  std::vector<LayerSpec> layers_;
};

// Two convolutions per level. The second activation is the level's output: down1_relu2 is the first skip.
void unet_block(BranchedLayers& list, const std::string& name, Index filters) {
  for (const char* const number : {"1", "2"}) list.conv_norm_relu(name, number, filters);
}

// Two convolutions and their input, which gets a convolution of its own where shapes differ.
std::string residual_block(BranchedLayers& list, const std::string& name, const std::string& from, Index filters,
                           bool reshape, Index stride) {
  list.conv(name + "_conv1", filters, 3, stride);
  list.norm(name + "_norm1", filters);
  list.add(relu, name + "_relu1");
  list.conv(name + "_conv2", filters, 3);
  list.norm(name + "_norm2", filters);
  std::string shortcut = from;
  if (reshape) {
    list.conv(name + "_shortcut", filters, 1, stride).from = {from};
    shortcut = name + "_shortcut_norm";
    list.norm(shortcut, filters);
  }
  list.add(LayerKind::add, name + "_add").from = {name + "_norm2", shortcut};
  list.add(relu, name);
  return name;
}

}  // namespace

std::vector<LayerSpec> unet_layers(const PresetSizes& sizes) {
  BranchedLayers list(sizes.norm.value_or(NormKind::group));
  const int levels = sizes.levels.value_or(3);
  const auto filters = [&](int level) { return static_cast<Index>(sizes.width.value_or(16)) << level; };
  for (int level = 0; level < levels; ++level) {
    const std::string number = std::to_string(level + 1);
    unet_block(list, "down" + number, filters(level));
    BranchedLayers::size(list.add(max_pool, "pool" + number), 2, 2);
  }
  unet_block(list, "middle", filters(levels));
  for (int level = levels; level-- > 0;) {
    const std::string number = std::to_string(level + 1);
    LayerSpec& up = list.add(conv_transpose, "up" + number);
    up.units = filters(level);
    BranchedLayers::size(up, 2, 2);
    list.add(concat, "join" + number).from = {"down" + number + "_relu2", "up" + number};
    unet_block(list, "merge" + number, filters(level));
  }
  list.conv("output", sizes.outputs.value_or(1), 1);
  return list.take();
}

std::vector<LayerSpec> resnet_layers(const PresetSizes& sizes) {
  BranchedLayers list(sizes.norm.value_or(NormKind::batch));
  const int levels = sizes.levels.value_or(4);
  const Index width = sizes.width.value_or(16);
  list.conv("stem_conv", width, 3);
  list.norm("stem_norm", width);
  list.add(relu, "stem");
  std::string last = "stem";
  for (int level = 0; level < levels; ++level) {
    for (const int block : {1, 2}) {
      const bool halves = level > 0 && block == 1;
      const std::string name = "block" + std::to_string(level + 1) + (block == 1 ? "a" : "b");
      last = residual_block(list, name, last, width << level, halves, halves ? 2 : 1);
    }
  }
  list.add(global_average_pool, "pool");
  list.add(dense, "output").units = sizes.outputs.value_or(1);
  return list.take();
}

}  // namespace mrmf
