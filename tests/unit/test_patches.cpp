// Boxes of samples, windows over them, and how far networks look.
#include <doctest/doctest.h>

#include <set>

#include "io/rows/sample_order.hpp"
#include "layers/geometry_and_reach.hpp"
#include "src/data/sliding_window_inference.hpp"

namespace mrmf {
namespace {

LayerSpec on_line(LayerKind kind, Index window, Index stride = 0) {
  LayerSpec spec;
  spec.kind = kind;
  spec.units = 1;
  spec.window = {1, 1, window};
  spec.stride = {0, 0, stride};
  spec.same_padding = kind == LayerKind::conv || kind == LayerKind::conv_transpose;
  return spec;
}

std::vector<LayerSpec> numbered(std::vector<LayerSpec> layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].name = "l" + std::to_string(i);
  return layers;
}

const Shape kLine{0, {1, 1, 40}, 1, 1};

}  // namespace

TEST_CASE("patches: boxes lie in the sample, anywhere, and are functions of key and number") {
  PatchSettings settings{.size = {16}};
  CHECK(patch_of(settings, kLine).spatial == Extent{1, 1, 16});
  CHECK(patches_of(settings, kLine) == 3);
  CHECK(patches_of({}, kLine) == 1);
  std::set<Index> firsts;
  for (std::int64_t id = 0; id < 600; ++id) {
    const Box box = draw_patch({settings, kLine}, 7, id);
    CHECK(contains({.count = kLine.spatial}, box));
    CHECK(box == draw_patch({settings, kLine}, 7, id));
    firsts.insert(box.first[2]);
  }
  CHECK(firsts.size() == 25);  // 0 ... 24
}

TEST_CASE("patches: boxes around foreground hold some, of each class as often") {
  PatchSettings settings{.size = {8}, .foreground = 1};
  const Foreground foreground{{}, {3, 4, 5, 6}, {39}};
  int first = 0, last = 0;
  for (std::int64_t id = 0; id < 400; ++id) {
    const Box box = draw_patch({settings, kLine, {1, 1, 1}, &foreground}, 1, id);
    CHECK(contains({.count = kLine.spatial}, box));
    const bool low = box.first[2] <= 6 && box.end(2) > 3, high = box.end(2) == 40;
    CHECK((low || high));
    first += low ? 1 : 0, last += high ? 1 : 0;
  }
  CHECK(std::abs(first - last) < 80);
  // At half the resolution, positions of the original one are halved.
  const Shape half{0, {1, 1, 20}, 1, 1};
  for (std::int64_t id = 0; id < 50; ++id) {
    const Foreground one{{}, {39}};
    CHECK(draw_patch({settings, half, {1, 1, 2}, &one}, 1, id).end(2) == 20);
  }
}

TEST_CASE("patches: an epoch takes each box once, in shards of whole samples") {
  OrderSettings order{.samples = 5, .ranks = 2, .rank = 0, .shards = 2, .batch = 2, .shuffle = true};
  order.repeats = 3;
  std::multiset<std::int64_t> seen;
  for (order.rank = 0; order.rank < 2; ++order.rank) {
    const EpochOrder epoch = epoch_order(order, 1, 0, 0);
    seen.insert(epoch.ids.begin(), epoch.ids.end());
    Index rows = 0;
    for (const Index all : epoch.global_rows) rows += all;
    CHECK(rows == 15);
    for (const std::int64_t id : epoch.ids) {
      const Range own = visited_rows(order);
      CHECK((id / 3 >= own.first && id / 3 < own.first + own.count));
    }
  }
  CHECK(seen.size() == 15);
  CHECK(std::set(seen.begin(), seen.end()).size() == 15);
}

TEST_CASE("reach: of convolutions, poolings and what undoes them, by hand") {
  const Reach conv =
      reach_of(numbered({on_line(LayerKind::conv, 3), on_line(LayerKind::relu, 1), on_line(LayerKind::conv, 5)}));
  CHECK(conv.step == Extent{1, 1, 1});
  CHECK((conv.before[2] == 3 && conv.after[2] == 3 && conv.before[0] == 0));
  // Down by 2, a convolution of 3 there, and up again: a block of 2 sees the blocks beside it.
  const Reach down = reach_of(
      numbered({on_line(LayerKind::max_pool, 2), on_line(LayerKind::conv, 3), on_line(LayerKind::upsample, 2)}));
  CHECK(down.step[2] == 2);
  CHECK((down.before[2] == 2 && down.after[2] == 2));
  const Reach turned = reach_of(numbered(
      {on_line(LayerKind::conv, 2, 2), on_line(LayerKind::conv, 3), on_line(LayerKind::conv_transpose, 2, 2)}));
  CHECK(turned.step[2] == 2);
  CHECK((turned.before[2] == 2 && turned.after[2] == 2));
  CHECK(reach_of(numbered({on_line(LayerKind::group_norm, 1)})).whole);
  // Weights of a position's own: a box elsewhere would need others.
  CHECK(reach_of(numbered({on_line(LayerKind::locally_connected, 3)})).whole);
  CHECK(reach_of(numbered({on_line(LayerKind::rica, 3)})).whole);
  CHECK_FALSE(reach_of(numbered({on_line(LayerKind::local_contrast_norm, 3)})).whole);
}

TEST_CASE("windows: weights of a position add up to 1, and none looks beyond its window where that can be") {
  const Reach reach = reach_of(numbered({on_line(LayerKind::conv, 5)}));
  const Windows windows({.size = {16}, .overlap = 0.5}, kLine, reach);
  CHECK(windows.count() == 4);
  CHECK(windows.exact());
  std::vector<float> sum(40), ones(16, 1.0F);
  for (Index w = 0; w < windows.count(); ++w) {
    std::vector<float> y = ones;
    const Box box = windows.box(w);
    for (Index p = 0; p < 2; ++p) {  // what would look beyond it is never counted, whatever it is
      if (box.first[2] > 0) y[static_cast<std::size_t>(p)] = std::nanf("");
      if (box.end(2) < 40) y[static_cast<std::size_t>(15 - p)] = std::nanf("");
    }
    windows.add(w, y, 1, sum);
  }
  for (const float one : sum) CHECK(one == doctest::Approx(1).epsilon(1e-6));
  CHECK_FALSE(Windows({.size = {16}, .overlap = 0}, kLine, reach).exact());
  CHECK_FALSE(
      Windows({.size = {16}, .overlap = 0.5}, kLine, reach_of(numbered({on_line(LayerKind::group_norm, 1)}))).exact());
  CHECK(Windows({.size = {40}, .overlap = 0.5}, kLine, reach).count() == 1);
  CHECK(Windows({}, kLine, reach).exact());
}

}  // namespace mrmf
