// Where a sample's positions lie on the blocks of a grid, worked out by hand, and what cannot be cut.
#include "layers/partition.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "layers/halo_exchange.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

Network network(const Extent& spatial, int axes, std::vector<LayerSpec> layers) {
  name_layers(layers);
  const auto backend = make_reference_backend();
  return {*backend, {{.n = 0, .spatial = spatial, .channels = 2, .axes = axes}, 1, layers, {}}};
}

LayerSpec window(LayerKind kind, const Extent& size, const Extent& stride, bool same = false) {
  LayerSpec spec = layer(kind, 4);
  spec.window = size;
  spec.stride = stride;
  spec.same_padding = same;
  return spec;
}

using Intervals = std::vector<Interval>;

}  // namespace

TEST_CASE("partition: an output position is where the middle of its window is") {
  const Network net =
      network({1, 1, 10}, 1,
              {window(LayerKind::conv, {1, 1, 4}, {1, 1, 1}), window(LayerKind::max_pool, {1, 1, 2}, {1, 1, 2}),
               layer(LayerKind::relu), layer(LayerKind::flatten), layer(LayerKind::dense, 2)});
  const Partition p(net, {{1, 1, 2}});
  // 7 outputs of windows of 4: those of 0 to 3 have their middle before the cut at 5.
  CHECK(p.tensor(1).owned.axes[2] == Intervals{{0, 4}, {4, 3}});
  CHECK(p.layer(0).needs[0].axes[2] == Intervals{{0, 7}, {4, 6}});
  CHECK(p.tensor(0).stored == p.layer(0).needs[0]);  // read from the files with its halo
  // 3 pools of 2; position 6 is in none.
  CHECK(p.tensor(2).owned.axes[2] == Intervals{{0, 2}, {2, 1}});
  CHECK(p.layer(1).needs[0].axes[2] == Intervals{{0, 4}, {4, 2}});
  CHECK_FALSE(p.at_hand(1, 0));  // one position is left over
  CHECK(p.at_hand(2, 0));
  CHECK(p.tensor(4).unflattened);  // nothing is gathered for a dense layer
  CHECK(p.at_hand(3, 0));
  CHECK(p.tensor(5).whole);
  CHECK(p.share_at({0, 0, 1}) == 0.5);
}

TEST_CASE("partition: the weights and biases of a locally connected layer lie where their positions lie") {
  const Network net = network(
      {1, 5, 7}, 2,
      {window(LayerKind::locally_connected, {1, 2, 3}, {1, 1, 2}),
       window(LayerKind::average_pool, {1, 4, 3}, {1, 4, 3}), layer(LayerKind::flatten), layer(LayerKind::dense, 2)});
  const Partition p(net, {{1, 2, 1}});
  CHECK(p.tensor(1).owned.axes[1] == Intervals{{0, 2}, {2, 2}});
  CHECK(p.layer(0).needs[0].axes[1] == Intervals{{0, 3}, {2, 3}});  // the halo
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    const std::vector<PartitionedWeights> cut = p.cut_weights(rank);
    REQUIRE(cut.size() == 3);  // and the dense layer's
    for (const std::size_t part : {0U, 1U}) {
      CHECK(cut[part].layer == 0);
      CHECK(cut[part].tensor == part);
      CHECK(cut[part].boxes[1] == Box{{0, 2, 0}, {1, 2, 3}});
    }
    CHECK(cut[0].whole == Shape{.n = 1, .spatial = {1, 4, 3}, .channels = 4 * 2 * 3 * 2});
    CHECK(cut[1].whole == Shape{.n = 1, .spatial = {1, 4, 3}, .channels = 4});
    const ParameterLayout layout(net, cut);
    CHECK(layout.params_of(0).count == aligned(6 * (48 + 4)));
    REQUIRE(layout.partitioned_tensors(0).size() == 2);
    CHECK(layout.partitioned_tensors(0)[1].own.first == 6 * 48);
    CHECK(layout.partitioned_tensors(0)[1].whole.first == 12 * 48);
    std::vector<float> all(12 * 52), own(static_cast<std::size_t>(layout.params_of(0).count), -1);
    std::iota(all.begin(), all.end(), 0.0F);
    layout.take(0, all, own);
    CHECK(own[0] == static_cast<float>(rank * 6 * 48));
    CHECK(own[6 * 48] == static_cast<float>(12 * 48 + rank * 6 * 4));
    CHECK(own[6 * 52] == -1);  // the gap
  }
}

TEST_CASE("partition: a dense layer's weights are cut by the positions of its features, or evenly") {
  const LayerSpec flat = layer(LayerKind::flatten), dense = layer(LayerKind::dense, 2);
  const auto cut = [&](const std::vector<LayerSpec>& layers, const Grid& grid) {
    const Network net = network({1, 3, 4}, 2, layers);
    return Partition(net, grid).cut_weights(0);
  };
  const std::vector<PartitionedWeights> by_positions = cut({flat, dense, dense}, {{1, 3, 2}});
  REQUIRE(by_positions.size() == 1);  // the first dense layer alone
  CHECK(by_positions[0].layer == 1);
  CHECK(by_positions[0].whole == Shape{.n = 2, .spatial = {1, 3, 4}, .channels = 2});
  CHECK(by_positions[0].boxes[3] == Box{{0, 1, 2}, {1, 1, 2}});
  CHECK(by_positions[0].columns(3) == 4);
  const std::vector<PartitionedWeights> evenly = cut({flat, layer(LayerKind::batch_norm), dense}, {{1, 1, 4}});
  REQUIRE(evenly.size() == 1);
  CHECK(evenly[0].whole == Shape{.n = 2, .spatial = {1, 1, 24}, .channels = 1});
  CHECK(evenly[0].boxes[1] == Box{{0, 0, 6}, {1, 1, 6}});
  CHECK(cut({layer(LayerKind::global_average_pool), dense}, {{1, 1, 4}}).empty());
  std::vector<float> all(static_cast<std::size_t>(by_positions[0].whole.count())), own(8), back(all.size());
  std::iota(all.begin(), all.end(), 0.0F);
  by_positions[0].take(all, own);
  CHECK(own[3] == 3);
  CHECK(own[4] == 24);  // the other output's
  for (int rank = 0; rank < 6; ++rank) {
    PartitionedWeights of_rank = by_positions[0];
    of_rank.rank = rank;
    of_rank.take(all, own);
    by_positions[0].put(rank, own, back);
  }
  CHECK(back == all);
}

TEST_CASE("partition: padding is where a block ends at the sample's border") {
  const Network net = network({1, 1, 12}, 1, {window(LayerKind::conv, {1, 1, 5}, {1, 1, 1}, true)});
  const Partition p(net, {{1, 1, 3}});
  CHECK(p.spec_at(0, {0, 0, 0}).pad_before[2] == 2);
  CHECK(p.spec_at(0, {0, 0, 0}).pad_after[2] == 0);
  CHECK(p.spec_at(0, {0, 0, 1}).pad_before[2] == 0);
  CHECK(p.spec_at(0, {0, 0, 2}).pad_after[2] == 2);
  CHECK(p.input_at(0, 0, {0, 0, 1}).spatial == Extent{1, 1, 8});
  CHECK(p.share_at({0, 0, 1}) == doctest::Approx(1.0 / 3));
}

TEST_CASE("partition: a halo of one position all around, with its corners, is what messages bring") {
  const Network net =
      network({8, 8, 8}, 3,
              {window(LayerKind::conv, {1, 1, 1}, {1, 1, 1}), window(LayerKind::conv, {3, 3, 3}, {1, 1, 1}, true)});
  const Grid grid{{2, 2, 2}};
  const Partition p(net, grid);
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const Shape shape = net.entry(0).output();
    // Blocks of 4^3 with a neighbour on one side of each axis: 5^3 are needed, and as many positions given.
    CHECK(halo_exchange_floats({shape, grid, rank, p.tensor(1), p.layer(1).needs[0]}) == (125 - 64) * shape.channels);
  }
}

TEST_CASE("partition: a batch norm of the input counts each position once, where a block has it") {
  struct Case {
    Index positions;
    LayerSpec behind;
    Intervals counted, held;
  };
  const LayerKind conv = LayerKind::conv, average = LayerKind::average_pool;
  const Case cases[] = {
      // Needed are [0, 32) and [32, 62): the pool drops the last position.
      {63, window(average, {1, 1, 2}, {1, 1, 2}), {{0, 32}, {32, 31}}, {{0, 32}, {32, 31}}},
      // Needed are [0, 33) and [32, 63).
      {64, window(conv, {1, 1, 3}, {1, 1, 2}), {{0, 32}, {32, 32}}, {{0, 33}, {32, 32}}},
      // Needed are 0, [3, 7) and 9: between its windows of one position it leaves two unread.
      {11, window(conv, {1, 1, 1}, {1, 1, 3}), {{0, 3}, {3, 6}, {9, 2}}, {{0, 3}, {3, 6}, {9, 2}}},
      // A halo on both sides: what is owned.
      {12, window(conv, {1, 1, 3}, {1, 1, 1}, true), {{0, 4}, {4, 4}, {8, 4}}, {{0, 5}, {3, 6}, {7, 5}}}};
  for (const Case& c : cases) {
    CAPTURE(c.positions);
    const Grid grid{{1, 1, std::ssize(c.held)}};
    const Network net = network({1, 1, c.positions}, 1, {layer(LayerKind::batch_norm), c.behind});
    const Partition p(net, grid);
    CHECK(p.tensor(0).stored.axes[2] == c.held);
    CHECK(p.tensor(1).stored.axes[2] == c.held);
    CHECK(p.tensor(1).owned.axes[2] == c.counted);
    CHECK(p.at_hand(0, 0));
    CHECK(p.at_hand(1, 0));  // so the two are fused
    for (std::size_t b = 0; b < c.held.size(); ++b) {
      const std::optional<Box> counted = p.position_at(0, {0, 0, static_cast<Index>(b)}).statistics_box;
      CHECK(counted.has_value() == (c.counted[b] != c.held[b]));
      if (counted) CHECK(counted->first[2] == c.counted[b].first - c.held[b].first);
      if (counted) CHECK(counted->count[2] == c.counted[b].count);
    }
  }
}

TEST_CASE("partition: a batch norm of the input in front of every window; each block makes its part of the output") {
  const auto backend = make_reference_backend();
  Index models = 0;
  for (Index positions = 4; positions <= 19; ++positions)
    for (Index size = 1; size <= 3; ++size)
      for (Index stride = 1; stride <= 4; ++stride)
        for (const Index blocks : {2, 3})
          for (const LayerKind kind : {LayerKind::conv, LayerKind::average_pool}) {
            ModelSettings settings;
            settings.network.sample = {.n = 0, .spatial = {1, 1, positions}, .channels = 1, .axes = 1};
            settings.network.max_rows = 1;
            settings.network.layers = {layer(LayerKind::batch_norm), window(kind, {1, 1, size}, {1, 1, stride})};
            name_layers(settings.network.layers);
            settings.grid = {{1, 1, blocks}};
            CAPTURE(positions);
            CAPTURE(size);
            CAPTURE(stride);
            CAPTURE(blocks);
            Index counted = 0;
            for (settings.block = 0; settings.block < blocks; ++settings.block, ++models) {
              const Model model(*backend, settings);  // checks that every box lies within what it is cut from
              const Partition p(model.network(), settings.grid);
              counted += p.tensor(1).owned.axes[2][static_cast<std::size_t>(settings.block)].count;
            }
            CHECK(counted == positions);
          }
  CHECK(models > 1000);
}

TEST_CASE("partition: uneven blocks and halos that are wider than a block") {
  const Network net =
      network({1, 1, 11}, 1,
              {window(LayerKind::conv, {1, 1, 1}, {1, 1, 1}), window(LayerKind::conv, {1, 1, 9}, {1, 1, 1}, true)});
  const Partition p(net, {{1, 1, 5}});
  CHECK(p.tensor(0).owned.axes[2] == Intervals{{0, 2}, {2, 2}, {4, 2}, {6, 2}, {8, 3}});
  CHECK(p.layer(1).needs[0].axes[2] == Intervals{{0, 6}, {0, 8}, {0, 10}, {2, 9}, {4, 7}});
}

TEST_CASE("partition: what cannot be cut names the layer and the most blocks") {
  const auto error = [](const Network& net, const Extent& blocks) {
    try {
      const Partition p(net, {blocks});
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  LayerSpec doubled = layer(LayerKind::upsample);
  doubled.window = {1, 1, 2};
  const Network net = network(
      {1, 1, 16}, 1,
      {window(LayerKind::max_pool, {1, 1, 4}, {1, 1, 4}), window(LayerKind::max_pool, {1, 1, 2}, {1, 1, 2}), doubled});
  CHECK(error(net, {1, 1, 2}).empty());
  CHECK(error(net, {1, 1, 3}) ==
        "pool2: run.grid = [3] cuts 2 positions of its output along axis 0 into 3 blocks, and one of them would have "
        "none; the largest grid that works is [2]");
  CHECK(
      error(net, {1, 1, 17}) ==
      "run.grid = [17] cuts the 16 positions of axis 0 into 17 blocks (samples are 16x2); the largest grid that works "
      "is [16]");
  CHECK(error(net, {1, 2, 2}) ==
        "run.grid = [2, 2] cuts more axes than samples of 16x2 have; the largest grid that works is [2]");
  const Network flat = network({1, 3, 16}, 2, {doubled});
  CHECK(error(flat, {1, 4, 20}) ==
        "run.grid = [4, 20] cuts the 3 positions of axis 0 into 4 blocks (samples are 3x16x2); the largest grid that "
        "works is [3, 16]");
  CHECK(error(flat, {1, 1, 20}).starts_with("run.grid = [1, 20] cuts the 16 positions of axis 1 into 20 blocks"));
  // Outputs between the windows belong to no input.
  const Network sparse = network({1, 4, 16}, 2, {window(LayerKind::conv_transpose, {1, 2, 2}, {1, 2, 3})});
  CHECK(error(sparse, {1, 4, 1}).empty());
  CHECK(error(sparse, {1, 2, 2}) ==
        "conv_transpose1: its stride is larger than its window along axis 1, so run.grid cannot cut that axis; the "
        "largest grid that works is [2, 1]");
}

TEST_CASE("partition: layers with fewer positions than blocks are computed by all ranks") {
  const LayerSpec quarter = window(LayerKind::max_pool, {1, 1, 4}, {1, 1, 4});
  const Network net = network({1, 1, 16}, 1, {quarter, quarter, layer(LayerKind::relu)});
  const Partition p(net, {{1, 1, 2}});
  CHECK_FALSE(p.tensor(1).whole);
  CHECK(p.tensor(2).whole);
  CHECK(p.tensor(3).whole);
  CHECK(p.layer(1).needs[0].axes[2] == Intervals{{0, 4}, {0, 4}});
  CHECK(p.share_at({0, 0, 0}) == 0.5);
}
