// A sample on several ranks: outputs, losses, gradients and statistics as on one, for every layer, random networks and
// grids. With MRMF_TEST_CUDA on the CUDA backend instead of the CPU's (or its emulated twin, MRMF_CUDA_MODULE), where
// the step is recorded and replayed.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "layers/halo_exchange.hpp"
#include "src/config/model_config.hpp"
#include "src/run/model_file.hpp"
#include "src/system/backend_choice.hpp"
#include "src/training/data_and_spatial_parallel.hpp"
#include "tests/mpi/differences.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/branches.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

/// The numbers of a training step.
struct Results {
  std::vector<float> y, grads, state;
  float loss = 0;
};

std::vector<float> box_of(const Shape& shape, const std::vector<float>& values, const Box& box) {
  Shape part = shape;
  part.spatial = box.count;
  std::vector<float> result(static_cast<std::size_t>(part.count()));
  std::vector<float> from = values;
  make_reference_backend()->copy_box({shape, from}, {part, result}, {.from = box.first, .count = box.count});
  return result;
}

std::unique_ptr<Backend> device() {
  cuda::Settings settings;
  settings.precision = Precision::fp32;
  settings.deterministic = true;  // timing would take long: many small plans are made here
  settings.share_device = true;
  return make_cuda_backend(settings);
}

enum class On { reference, onednn, cuda };

std::unique_ptr<Backend> backend_of(On on) {
  if (on == On::cuda) return device();
  return on == On::reference ? make_reference_backend() : make_cpu_backend(1);
}

bool tests_cuda() { return std::getenv("MRMF_TEST_CUDA") != nullptr; }
std::vector<On> all_backends() { return tests_cuda() ? std::vector{On::cuda} : std::vector{On::reference, On::onednn}; }
On fast_backend() { return tests_cuda() ? On::cuda : On::onednn; }

/// Counts what is sent and received, in floats.
class CountedMessages final : public Messages {
 public:
  explicit CountedMessages(Messages& messages) : messages_(messages) {}
  int rank() const override { return messages_.rank(); }
  void start(std::span<const Message> sent, std::span<const Message> received) override {
    for (const Message& m : sent) sent_ += std::ssize(m.values);
    for (const Message& m : received) received_ += std::ssize(m.values);
    messages_.start(sent, received);
  }
  void finish() override { messages_.finish(); }
  SumTime take_time() override { return messages_.take_time(); }
  Index take_sent() { return std::exchange(sent_, 0); }
  Index take_received() { return std::exchange(received_, 0); }

 private:
  Messages& messages_;
  Index sent_ = 0, received_ = 0;
};

/// Floats that a rank sends for a row in forward, by the halo rule. Of networks without branches.
Index halo_floats(const Network& network, const Grid& grid, int rank) {
  const Partition partition(network, grid);
  Index floats = 0;
  for (std::size_t i = 0; i < network.size(); ++i)
    if (!partition.at_hand(i, 0))
      floats += halo_exchange_floats(
          {network.output_numbered(i), grid, rank, partition.tensor(i), partition.layer(i).needs[0]});
  return floats;
}

/// Exchanges of an execution whose input lies between the halo's margins, and those whose gradient does.
struct InPlace {
  Index exchanges = 0, forward = 0, backward = 0;
  explicit InPlace(const Execution& execution) {
    for (const Unit& unit : execution.units) {
      if (!unit.is_halo_exchange()) continue;
      ++exchanges;
      const auto within = [](const ArenaSpan& a, const ArenaSpan& b) {
        return a.first >= b.first && a.end() <= b.end();
      };
      if (unit.reads[0] == 0) continue;
      if (within(execution.units[unit.reads[0] - 1].memory.output, unit.memory.output)) ++forward;
      if (within(unit.memory.dx[0].dx, unit.memory.dy)) ++backward;
    }
  }
};

/// The same network and batch unsplit, and on a grid of all ranks.
struct GridExperiment {
  Comm world = Comm::world();
  std::unique_ptr<Backend> backend;
  ModelSettings settings;
  LossSettings loss;
  Index target_channels = 0;  ///< of the labels; 0: those of the outputs, as random numbers
  Index rows = 3;
  Index halo_sent = 0, halo_returned = 0;  ///< floats of the last split(), forward and backward

  Results unsplit() {
    Model model(*backend, settings);
    return run(model, nullptr, nullptr);
  }

  Results split(const Extent& blocks) {
    ModelSettings own = settings;
    own.grid = {blocks};
    own.block = world.rank();
    const auto messages = make_messages(*backend, world);
    const auto ranks = make_all_reduce(*backend, world);
    Model model(*backend, own);
    return run(model, messages.get(), ranks.get());
  }

  // Numbers, or classes with -1 where a label is ignored: all of the first sample's first half, so that blocks differ.
  std::vector<float> targets(const Shape& labels, Index classes) const {
    std::vector<float> values = random_values(labels.count(), 22);
    if (target_channels == 0) return values;
    const Index half = labels.per_sample() / 2;
    for (Index i = 0; i < std::ssize(values); ++i) {
      float& value = values[static_cast<std::size_t>(i)];
      const float most = classes > 1 ? static_cast<float>(classes) : 2.0F;  // yes or no
      value = i < half || i % 5 == 0 ? -1.0F : std::floor(std::min(std::abs(value), 0.999F) * most);
    }
    return values;
  }

  Results run(Model& model, Messages* blocks, AllReduce* ranks) {
    const Shape whole = model.network().input().with_rows(rows), outputs_of = model.network().output().with_rows(rows);
    Shape labels = outputs_of;
    if (target_channels > 0) labels.channels = target_channels;
    const std::vector<float> x = random_values(whole.count(), 21);
    const std::vector<float> target = targets(labels, loss.task() == Task::classes ? outputs_of.channels : 1);
    const Execution& here = model.execution();
    const std::vector<float> own_x = box_of(whole, x, here.input_box);
    const std::vector<float> own_target = box_of(labels, target, here.output_box);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(rows));
    std::iota(ids.begin(), ids.end(), 0);
    StepContext step{.training = true,
                     .seed = 1,
                     .updates_done = 5,
                     .ids = ids,
                     .team_sum = ranks,
                     .halo_messages = blocks,
                     .sample_sum = ranks};
    step.loss_weight = 0.5F;
    step.share = here.share;
    const Shape in = model.input().with_rows(rows), out = model.output().with_rows(rows);
    std::optional<CountedMessages> counted;
    if (blocks != nullptr) step.halo_messages = &counted.emplace(*blocks);
    Shape own_labels = out;
    own_labels.channels = labels.channels;
    Arena input = backend->allocate(backend->activation_floats(in));
    Arena own_labels_at = backend->allocate(std::ssize(own_target));
    backend->write_activation(own_x, {in, input.span()});
    backend->write(own_target, own_labels_at.span());
    StepContext of_loss = step;
    if (out.spatial == outputs_of.spatial) of_loss.sample_sum = nullptr;  // every rank has all of it
    const auto loss_op = backend->loss(loss, out, labels.channels);
    std::vector<float> outputs(static_cast<std::size_t>(out.count()));
    model.prepare(rows);
    backend->drop_captures();  // the records of another model
    // Call by call, recorded, and replayed.
    for (int time = 0; time < (backend->synchronous() ? 1 : 3); ++time) {
      backend->fill(model.grads(), NAN);
      backend->begin(step);
      backend->run_captured(1, [&] {
        const ConstTensor y = model.forward(step, {in, input.span()});
        loss_op->run(of_loss, y, {own_labels, own_labels_at.span()}, model.output_gradient(rows), model.loss());
      });
      if (counted) halo_sent = counted->take_sent(), counted->take_received();
      backend->read_activation(model.output(rows), outputs);
      backend->run_captured(2, [&] {
        model.backward(step, {in, input.span()},
                       {.all_reduce = ranks, .bucket = 1});  // one group: row-parallel weights are nobody else's
      });
      if (counted) halo_returned = counted->take_received();
    }
    Results results;
    backend->read(model.loss(), {&results.loss, 1});
    std::vector<float> grads = WholeWeights{*backend, model.network(), model.layout(), &world}.read(model.grads());
    for (const LayerEntry& entry : model.network().entries()) {
      const Span own = span_at(grads, entry.params);
      results.grads.insert(results.grads.end(), own.begin(), own.end());
    }
    results.state.resize(model.state().size());
    backend->read(model.state(), results.state);
    results.y = gathered(outputs, outputs_of, here, ranks != nullptr);
    return results;
  }

  // Every rank's part of the output in its place.
  std::vector<float> gathered(std::vector<float> own, const Shape& whole, const Execution& here, bool split) {
    if (!split || here.output_box.count == whole.spatial) return own;
    std::vector<float> all(static_cast<std::size_t>(whole.count()));
    Shape part = whole;
    part.spatial = here.output_box.count;
    make_reference_backend()->copy_box({part, own}, {whole, all}, {.to = here.output_box.first, .count = part.spatial});
    world.sum(std::span(all));
    return all;
  }

  /// With several rows, and with one, whose slabs are contiguous: in a model for two rows, which exchanges them in the
  /// general way, in place, and with convolutions that begin before messages have arrived.
  void check(const Extent& blocks, double tolerance = 2e-5) {
    struct RowCase {
      Index rows, most_rows;
      bool ahead = false;
    };
    CAPTURE(blocks[0]);
    CAPTURE(blocks[1]);
    CAPTURE(blocks[2]);
    const RowCase as_it_was{rows, settings.network.max_rows};
    for (const RowCase& way : {as_it_was, RowCase{1, 2}, RowCase{1, 1}, RowCase{1, 1, true}}) {
      CAPTURE(way.rows);
      CAPTURE(way.most_rows);
      CAPTURE(way.ahead);
      rows = way.rows, settings.network.max_rows = way.most_rows, settings.ahead = way.ahead;
      const Results one = unsplit(), many = split(blocks);
      CHECK(relative_difference(many.y, one.y) < tolerance);
      CHECK(relative_difference(many.grads, one.grads) < tolerance);
      CHECK(relative_difference(many.state, one.state) < tolerance);
      CHECK(many.loss == doctest::Approx(one.loss).epsilon(1e-5));
    }
    rows = as_it_was.rows, settings.network.max_rows = as_it_was.most_rows, settings.ahead.reset();
  }
};

/// Grids of this many blocks on so many axes.
std::vector<Extent> grids(int ranks, int axes) {
  std::vector<Extent> all;
  for (Index a = 1; a <= ranks; ++a)
    for (Index b = 1; a * b <= ranks; ++b) {
      const Index c = ranks / (a * b);
      if (a * b * c != ranks || (axes < 3 && a > 1) || (axes < 2 && b > 1)) continue;
      all.push_back({a, b, c});
    }
  return all;
}

GridExperiment experiment(const std::vector<LayerSpec>& layers, const Shape& sample, On on = fast_backend()) {
  GridExperiment e;
  e.backend = backend_of(on);
  e.settings.network.sample = sample;
  e.settings.network.max_rows = e.rows;
  e.settings.network.layers = layers;
  name_layers(e.settings.network.layers);
  e.settings.seed = 3;
  return e;
}

LayerSpec pool(LayerKind kind, const Extent& window, const Extent& stride) {
  LayerSpec spec = layer(kind);
  spec.window = window;
  spec.stride = stride;
  return spec;
}

}  // namespace

TEST_CASE("grid: one layer after another, of odd sizes") {
  const Shape sample{.n = 0, .spatial = {1, 1, 37}, .channels = 2, .axes = 1};
  const LayerSpec dense = layer(LayerKind::dense, 3), flat = layer(LayerKind::flatten);
  LayerSpec dilated = conv(4, {1, 1, 3});
  dilated.dilation = {1, 1, 4};
  LayerSpec padded = conv(4, {1, 1, 5}, {1, 1, 2});
  padded.pad_before = {0, 0, 3};
  padded.pad_after = {0, 0, 1};
  LayerSpec transposed = conv(4, {1, 1, 4}, {1, 1, 2});
  transposed.kind = LayerKind::conv_transpose;
  transposed.pad_before = {0, 0, 1};
  LayerSpec linear = layer(LayerKind::upsample);
  linear.window = {1, 1, 3};
  linear.mode = UpsampleKind::linear;
  LayerSpec nearest = linear;
  nearest.mode = UpsampleKind::nearest;
  LayerSpec groups = layer(LayerKind::group_norm);
  groups.groups = 2;
  const std::vector<LayerSpec> middles[] = {
      {conv(4, {1, 1, 3}, {1, 1, 1}, true)},
      {conv(4, {1, 1, 4})},
      {conv(4, {1, 1, 5}, {1, 1, 3}, true)},
      {conv(4, {1, 1, 1}, {1, 1, 2})},
      {dilated},
      {padded},
      {pool(LayerKind::max_pool, {1, 1, 3}, {1, 1, 2})},
      {pool(LayerKind::average_pool, {1, 1, 2}, {1, 1, 2})},
      {transposed},
      {linear},
      {nearest},
      {linear, conv(4, {1, 1, 7}, {1, 1, 1}, true)},  // reads as far as the upsampling makes values that mean nothing
      {layer(LayerKind::batch_norm)},
      {conv(4, {1, 1, 3}), groups},
      {conv(4, {1, 1, 3}), layer(LayerKind::layer_norm)},
      {conv(4, {1, 1, 3}), groups, layer(LayerKind::relu)},
      {conv(4, {1, 1, 3}), layer(LayerKind::layer_norm), layer(LayerKind::leaky_relu)},
      {conv(4, {1, 1, 4}), pool(LayerKind::max_pool, {1, 1, 4}, {1, 1, 4}), layer(LayerKind::relu)},
      {conv(4, {1, 1, 3}), layer(LayerKind::batch_norm), layer(LayerKind::relu),
       pool(LayerKind::average_pool, {1, 1, 2}, {1, 1, 2})},
      {conv(4, {1, 1, 3}), layer(LayerKind::relu), layer(LayerKind::global_average_pool)},
  };
  std::size_t number = 0;
  for (const std::vector<LayerSpec>& middle : middles)
    for (const On on : all_backends()) {
      CAPTURE(number);
      CAPTURE(static_cast<int>(on));
      number += on == On::reference ? 0 : 1;
      std::vector<LayerSpec> layers = middle;
      layers.insert(layers.begin(), conv(3, {1, 1, 2}));  // so that the layer has a gradient to give
      layers.insert(layers.end(), {flat, dense});
      GridExperiment e = experiment(layers, sample, on);
      e.check({1, 1, e.world.size()});
      layers.resize(layers.size() - 2);  // outputs with positions
      GridExperiment open = experiment(layers, sample, on);
      open.check({1, 1, open.world.size()});
    }
}

TEST_CASE("grid: convolution, ReLU and max pooling of planes in one pass, with padding") {
  const Shape sample{.n = 0, .spatial = {1, 46, 41}, .channels = 2, .axes = 2};
  const LayerSpec relu = layer(LayerKind::relu), halves = pool(LayerKind::max_pool, {1, 2, 2}, {1, 2, 2});
  for (const bool same : {true, false})
    for (const On on : all_backends()) {
      CAPTURE(same);
      CAPTURE(static_cast<int>(on));
      const LayerSpec first = conv(4, {1, 3, 3}, {1, 1, 1}, same), second = conv(6, {1, 3, 3}, {1, 1, 1}, same);
      const std::vector<LayerSpec> layers{
          first, relu, halves, second, halves, relu, layer(LayerKind::flatten), layer(LayerKind::dense, 3)};
      GridExperiment lines = experiment(layers, sample, on), columns = experiment(layers, sample, on);
      lines.check({1, lines.world.size(), 1});
      columns.check({1, 1, columns.world.size()});
    }
}

TEST_CASE("grid: losses whose means are of whole samples, with labels that are ignored in some blocks") {
  struct Kinds {
    std::vector<std::pair<LossKind, float>> weights;
    std::vector<float> classes{};
    Index target_channels;
  };
  using enum LossKind;
  const Kinds all[] = {{{{cross_entropy, 1}}, {}, 1},
                       {{{cross_entropy, 0.7F}, {dice, 2}}, {1, 0.5F, 3}, 1},
                       {{{dice, 1}}, {}, 1},
                       {{{binary_cross_entropy, 1}, {dice, 0.5F}}, {1, 2, 3}, 3},
                       {{{huber, 1}, {mae, 0.5F}}, {}, 0}};
  const Shape sample{.n = 0, .spatial = {1, 12, 11}, .channels = 2, .axes = 2};
  std::size_t number = 0;
  for (const Kinds& kinds : all)
    for (const On on : all_backends()) {
      CAPTURE(number);
      CAPTURE(static_cast<int>(on));
      number += on == On::reference ? 0 : 1;
      GridExperiment e =
          experiment({conv(4, {1, 3, 3}, {1, 1, 1}, true), layer(LayerKind::tanh), conv(3, {1, 1, 1})}, sample, on);
      e.loss.weights = {};
      for (const auto& [kind, weight] : kinds.weights) e.loss.weights[static_cast<std::size_t>(kind)] = weight;
      e.loss.class_weights = kinds.classes;
      e.target_channels = kinds.target_channels;
      for (const Extent& grid : grids(e.world.size(), 2)) e.check(grid);
    }
}

TEST_CASE("grid: networks of one, two and three axes, on every grid of these ranks") {
  for (const int axes : {1, 2, 3}) {
    CAPTURE(axes);
    const auto window = [&](Index size) {
      Extent e{1, 1, 1};
      for (int a = 3 - axes; a < 3; ++a) e[static_cast<std::size_t>(a)] = size;
      return e;
    };
    Shape sample{.n = 0, .spatial = window(20), .channels = 2, .axes = axes};
    sample.spatial[2] = 23;
    const std::vector<LayerSpec> layers{layer(LayerKind::batch_norm),
                                        conv(4, window(3), {1, 1, 1}, true),
                                        layer(LayerKind::batch_norm),
                                        layer(LayerKind::leaky_relu),
                                        pool(LayerKind::average_pool, window(2), window(2)),
                                        conv(6, window(2)),
                                        layer(LayerKind::tanh),
                                        layer(LayerKind::flatten),
                                        layer(LayerKind::batch_norm),
                                        layer(LayerKind::dense, 5),
                                        layer(LayerKind::relu),
                                        layer(LayerKind::dense, 2)};
    GridExperiment e = experiment(layers, sample);
    for (const Extent& grid : grids(e.world.size(), axes)) e.check(grid);
  }
}

TEST_CASE("grid: a batch norm of the input counts what no window behind it reads") {
  const LayerKind average = LayerKind::average_pool, max = LayerKind::max_pool;
  const Shape line{.n = 0, .spatial = {1, 1, 64}, .channels = 2, .axes = 1},
      square{.n = 0, .spatial = {1, 31, 29}, .channels = 1, .axes = 2};
  std::vector<LayerSpec> twice{named(LayerKind::batch_norm, "norm"), conv(2, {1, 1, 2}, {1, 1, 3}),
                               pool(average, {1, 1, 2}, {1, 1, 3}), named(LayerKind::concat, "both", {"a", "b"})};
  twice[1].name = "a", twice[2].name = "b";
  twice[2].from = {"norm"};
  struct Case {
    Shape sample;
    std::vector<LayerSpec> behind;
  };
  const Case cases[] = {{square, {pool(average, {1, 2, 2}, {1, 2, 2})}},
                        {square, {pool(max, {1, 3, 2}, {1, 4, 3}), conv(3, {1, 2, 2})}},
                        {square, {conv(3, {1, 1, 1}, {1, 3, 4})}},
                        {line, {conv(4, {1, 1, 3}, {1, 1, 2})}},
                        {line, {conv(4, {1, 1, 2}, {1, 1, 5}), layer(LayerKind::relu)}},
                        {line, {twice[1], twice[2], twice[3]}},
                        {line, {layer(LayerKind::relu), pool(average, {1, 1, 3}, {1, 1, 3})}},
                        {line, {conv(4, {1, 1, 60}, {1, 1, 4})}}};  // fewer positions than blocks: whole on every rank
  std::size_t number = 0;
  for (const Case& c : cases)
    for (const On on : all_backends())
      for (const bool fuse : {false, true}) {
        CAPTURE(number);
        CAPTURE(static_cast<int>(on));
        CAPTURE(fuse);
        number += on == On::reference && !fuse ? 1 : 0;
        std::vector<LayerSpec> layers = c.behind;
        layers.insert(layers.begin(), twice[0]);
        GridExperiment e = experiment(layers, c.sample, on);
        e.settings.fuse = fuse;
        for (const Extent& grid : grids(e.world.size(), c.sample.axes)) e.check(grid);
      }
}

namespace {

LayerSpec untied(LayerKind kind, Index units, const Extent& window, const Extent& stride = {1, 1, 1}) {
  LayerSpec spec = conv(units, window, stride);
  spec.kind = kind;
  return spec;
}

struct UntiedCase {
  Shape sample;
  std::vector<LayerSpec> layers;
};
void check_untied(const std::vector<UntiedCase>& cases) {
  for (const UntiedCase& c : cases) {
    CAPTURE(c.sample.axes);
    GridExperiment e = experiment(c.layers, c.sample);
    for (const Extent& grid : grids(e.world.size(), c.sample.axes)) e.check(grid);
  }
}

}  // namespace

TEST_CASE("grid: locally connected layers, whose weights lie where their positions lie") {
  constexpr LayerKind local = LayerKind::locally_connected;
  const LayerSpec flat = layer(LayerKind::flatten), tanh = layer(LayerKind::tanh), dense = layer(LayerKind::dense, 3);
  const LayerSpec norm = layer(LayerKind::batch_norm), average = pool(LayerKind::average_pool, {1, 2, 2}, {1, 1, 1});
  LayerSpec roots = pool(LayerKind::l2_pool, {1, 3, 2}, {1, 2, 2});
  roots.groups = 2;
  LayerSpec contrast = layer(LayerKind::local_contrast_norm), wide = contrast;
  contrast.window = {1, 3, 5}, wide.window = {3, 1, 7};  // the last reaches further than a block
  check_untied({{{.n = 0, .spatial = {1, 14, 15}, .channels = 2, .axes = 2},
                 {contrast, untied(local, 5, {1, 3, 3}), contrast, layer(LayerKind::tanh)}},
                {{.n = 0, .spatial = {9, 8, 9}, .channels = 3, .axes = 3}, {conv(4, {2, 1, 2}), wide}},
                {{.n = 0, .spatial = {1, 1, 33}, .channels = 3, .axes = 1},
                 {untied(local, 4, {1, 1, 5}), tanh, untied(local, 3, {1, 1, 4}, {1, 1, 2}), flat, dense}},
                {{.n = 0, .spatial = {1, 14, 13}, .channels = 2, .axes = 2},
                 {norm, untied(local, 5, {1, 4, 3}), average, tanh, untied(local, 2, {1, 3, 3})}},
                {{.n = 0, .spatial = {1, 15, 16}, .channels = 2, .axes = 2},
                 {untied(local, 4, {1, 3, 3}), roots, untied(local, 2, {1, 2, 2})}},
                {{.n = 0, .spatial = {9, 8, 9}, .channels = 2, .axes = 3},
                 {untied(local, 3, {2, 3, 2}), norm, untied(local, 4, {3, 2, 2}, {2, 1, 1}), flat, dense}}});
}

TEST_CASE("grid: reconstruction ICA, whose fields add to what other ranks put together") {
  LayerSpec planes = untied(LayerKind::rica, 6, {1, 5, 4}, {1, 2, 2}),
            own = untied(LayerKind::rica, 3, {1, 4, 4}, {1, 1, 3}), line = untied(LayerKind::rica, 4, {1, 1, 7});
  planes.sparsity = own.sparsity = line.sparsity = 50;  // so that it counts
  planes.groups = 3;
  own.decoder = Decoder::own;
  LayerSpec encodes = planes;
  encodes.output = RicaOutput::features;
  check_untied(
      {{{.n = 0, .spatial = {1, 29, 30}, .channels = 2, .axes = 2}, {planes}},
       {{.n = 0, .spatial = {1, 29, 30}, .channels = 2, .axes = 2}, {encodes, layer(LayerKind::tanh)}},
       {{.n = 0, .spatial = {1, 26, 34}, .channels = 1, .axes = 2}, {conv(2, {1, 3, 3}), own, layer(LayerKind::tanh)}},
       {{.n = 0, .spatial = {1, 1, 40}, .channels = 1, .axes = 1}, {line, conv(2, {1, 1, 3}), line}}});
}

TEST_CASE("grid: dense layers behind a flatten, cut by positions, evenly, several of them, and not at all") {
  const Shape sample{.n = 0, .spatial = {1, 9, 11}, .channels = 8, .axes = 2};
  LayerSpec drop = layer(LayerKind::dropout);
  drop.rate = 0.4F;
  LayerSpec groups = layer(LayerKind::group_norm);
  groups.groups = 2;
  const LayerSpec flat = layer(LayerKind::flatten), relu = layer(LayerKind::relu), dense = layer(LayerKind::dense, 7),
                  last = layer(LayerKind::dense, 3), norm = layer(LayerKind::batch_norm);
  const LayerSpec all = pool(LayerKind::average_pool, {1, 7, 10}, {1, 7, 10});  // one position: whole on every rank
  struct Case {
    std::vector<LayerSpec> layers;
    bool cut;
  };
  const std::vector<LayerSpec> heads{named(LayerKind::flatten, "flat"), named(LayerKind::tanh, "a"),
                                     named(LayerKind::dense, "left"), named(LayerKind::dense, "right", {"flat"}),
                                     named(LayerKind::add, "sum", {"left", "right"})};
  const Case cases[] = {{{flat, dense, relu, last}, true},
                        {{flat, drop, relu, dense, drop, last}, true},
                        {{flat, norm, drop, dense, last}, true},
                        {{all, flat, drop, dense, last}, true},
                        {heads, true},
                        {{flat, last, dense}, true},
                        {{flat, layer(LayerKind::layer_norm), dense, last}, true},
                        {{flat, layer(LayerKind::layer_norm), relu, dense, last}, true},
                        {{flat, groups, dense, last}, true},
                        {{flat, norm}, false},
                        {{flat, drop}, false}};
  std::size_t number = 0;
  for (const Case& c : cases)
    for (const bool first : {false, true}) {  // the flatten reads the network's input
      CAPTURE(number);
      CAPTURE(first);
      number += first ? 1 : 0;
      std::vector<LayerSpec> layers = c.layers;
      for (LayerSpec& spec : layers)
        if (spec.name == "left" || spec.name == "right") spec.units = 5;
      if (!first) layers.insert(layers.begin(), conv(16, {1, 3, 2}));
      GridExperiment e = experiment(layers, sample);
      for (const Extent& grid : grids(e.world.size(), 2)) e.check(grid);
      if (e.world.size() == 1) continue;
      ModelSettings own = e.settings;
      own.grid = {{1, 1, e.world.size()}};
      own.block = e.world.rank();
      const Model model(*e.backend, own);
      CHECK(model.layout().partitioned().empty() == !c.cut);
    }
}

TEST_CASE("grid: random networks with branches and dropout, on random grids") {
  for (std::uint64_t key = 1; key <= 30; ++key)
    for (const int axes : {1 + static_cast<int>(key % 3), 1 + static_cast<int>((key + 1) % 3)}) {
      CAPTURE(key);
      CAPTURE(axes);
      GridExperiment e;
      e.backend = backend_of(fast_backend());
      e.settings = branch_model(random_layers(key), axes);
      e.settings.network.max_rows = e.rows;
      const std::vector<Extent> all = grids(e.world.size(), axes);
      const Extent grid = all[key % all.size()];
      e.check(grid);
    }
}

namespace {

/// Layers one behind another, of any window, stride, dilation and padding, on samples of odd and even sizes.
struct Chain {
  int axes;
  Rng rng;

  Index within(Index least, Index most) {
    return least + static_cast<Index>(rng.below(static_cast<std::uint64_t>(most - least + 1)));
  }
  Extent sizes(Index least, Index most) {
    Extent all{1, 1, 1};
    for (int a = 3 - axes; a < 3; ++a) all[static_cast<std::size_t>(a)] = within(least, most);
    return all;
  }

  LayerSpec any_pool(Index most_stride) {
    const LayerKind kind = rng.below(2) == 0 ? LayerKind::max_pool : LayerKind::average_pool;
    return pool(kind, sizes(1, 3), sizes(1, most_stride));
  }
  /// Often one that leaves positions unread, between its windows or at the end.
  LayerSpec any_window() {
    const Index most_stride = axes == 3 ? 2 : 4;
    return rng.below(2) == 0 ? any_pool(most_stride) : conv(4, sizes(1, 3), sizes(1, most_stride), rng.below(4) == 0);
  }
  /// A convolution, or a batch norm and what is behind it.
  std::vector<LayerSpec> beginning(bool norm) {
    if (!norm) return {conv(4, sizes(1, 3))};
    return {layer(LayerKind::batch_norm), rng.below(4) == 0 ? any() : any_window()};
  }

  LayerSpec any() {
    switch (rng.below(8)) {
      case 0: return layer(LayerKind::tanh);
      case 1: return layer(LayerKind::batch_norm);
      case 2: {
        LayerSpec groups = layer(LayerKind::group_norm);
        groups.groups = 2;
        return groups;
      }
      case 3: return any_pool(2);
      case 4: {
        LayerSpec up = layer(LayerKind::upsample);
        up.window = sizes(1, 2);
        up.mode = rng.below(2) == 0 ? UpsampleKind::linear : UpsampleKind::nearest;
        return up;
      }
      case 5: {
        LayerSpec transposed = conv(2 * within(1, 3), sizes(2, 3), sizes(1, 2));
        transposed.kind = LayerKind::conv_transpose;
        return transposed;
      }
      default: {
        LayerSpec spec = conv(2 * within(1, 3), sizes(1, 4), sizes(1, 2), rng.below(2) == 0);
        if (!spec.same_padding) spec.pad_before = sizes(0, 1), spec.pad_after = sizes(0, 1);
        for (std::size_t a = 0; a < 3; ++a) {
          if (spec.window[a] > 1) spec.dilation[a] = within(1, 2);
          if (spec.window[a] == 1) spec.pad_before[a] = spec.pad_after[a] = 0;
        }
        return spec;
      }
    }
  }
};

bool fits(const Network& network, const Extent& blocks) {
  try {
    const Partition partition(network, {blocks});
    return true;
  } catch (const ConfigError&) {  // an axis of some layer has fewer positions than blocks
    return false;
  }
}

}  // namespace

TEST_CASE("grid: random chains of every kind of layer, of any size, on random grids") {
  std::uint64_t run = 0;
  const std::uint64_t chains = fast_backend() == On::cuda ? 16 : 48;  // an emulated device is slow
  for (std::uint64_t key = 1; key <= chains; ++key) {
    CAPTURE(key);
    const int axes = 1 + static_cast<int>(key % 3);
    Chain chain{axes, Rng(key)};
    Shape sample{.n = 0, .spatial = chain.sizes(axes == 3 ? 9 : 17, axes == 3 ? 13 : 31), .channels = 2, .axes = axes};
    std::vector<LayerSpec> layers = chain.beginning(key % 2 == 0);
    for (Index count = chain.within(2, 5); count > 0; --count) {
      layers.push_back(chain.any());
      try {
        const Network made(*make_reference_backend(), experiment(layers, sample).settings.network);
      } catch (const ConfigError&) {  // a window that is larger than what is left
        layers.pop_back();
      }
    }
    GridExperiment e = experiment(layers, sample);
    const Network network(*e.backend, e.settings.network);
    std::vector<Extent> fitting = grids(e.world.size(), axes);
    std::erase_if(fitting, [&](const Extent& grid) { return !fits(network, grid); });
    if (fitting.empty()) continue;
    e.check(fitting[key % fitting.size()], 1e-4);
    ++run;
  }
  CHECK(run >= chains * 2 / 3);
}

TEST_CASE("grid: transposed convolutions, upsampling, skips and norms on three axes") {
  LayerSpec up = named(LayerKind::conv_transpose, "up", {"deep"});
  up.units = 4;
  up.window = up.stride = {2, 2, 2};
  LayerSpec linear = named(LayerKind::upsample, "linear", {"deep"});
  linear.window = {2, 2, 2};
  linear.mode = UpsampleKind::linear;
  LayerSpec groups = named(LayerKind::group_norm, "groups");
  groups.groups = 2;
  LayerSpec down = named(LayerKind::max_pool, "down");
  down.window = down.stride = {2, 2, 2};
  for (const LayerSpec& rising : {up, linear}) {
    CAPTURE(rising.name);
    GridExperiment e = experiment({}, {.n = 0, .spatial = {16, 10, 8}, .channels = 2, .axes = 3});
    e.settings.network.layers = {named_conv("first", 4, 3),
                                 groups,
                                 named(LayerKind::silu, "skip"),
                                 down,
                                 named_conv("deep", 4, 3),
                                 rising,
                                 named(LayerKind::concat, "both", {rising.name, "skip"}),
                                 named_conv("last", 2, 3)};
    for (const Extent& grid : grids(e.world.size(), 3)) {
      if (grid[1] > 5 || grid[2] > 4) continue;  // the positions of the deeper level
      e.check(grid);
    }
  }
}

TEST_CASE("grid: one sample's slabs are sent and received in place, by the halo rule") {
  for (const Index positions : {32, 35})
    for (const bool ahead : {false, true}) {
      CAPTURE(positions);
      CAPTURE(ahead);
      GridExperiment e;
      e.backend = make_cpu_backend(1);
      const Shape sample{.n = 0, .spatial = {positions, 32, 32}, .channels = 4, .axes = 3};
      std::vector<LayerSpec> layers = preset_layers("cosmoflow");
      layers.resize(13);  // up to the third pooling
      for (LayerSpec& spec : layers)
        if (spec.kind == LayerKind::conv) spec.units = 4;  // where things go, not how much they are
      e.settings.network.sample = sample;
      e.settings.network.layers = layers;
      e.settings.ahead = ahead;
      for (const Index rows : {1, 2}) {
        CAPTURE(rows);
        e.rows = e.settings.network.max_rows = rows;
        for (const Extent& blocks : grids(e.world.size(), 3)) {
          ModelSettings own = e.settings;
          own.grid = {blocks};
          own.block = e.world.rank();
          const Model model(*e.backend, own);
          const InPlace found(model.execution());
          const bool slabs = rows == 1 && blocks[1] * blocks[2] == 1;
          if (positions % (8 * e.world.size()) == 0) {  // where three poolings need no halo
            CHECK(found.exchanges == (e.world.size() > 1 ? 2 : 0));
            CHECK(found.forward == (slabs ? found.exchanges : 0));
          }
          CHECK((found.forward > 0 || !slabs || e.world.size() == 1));
          CHECK((found.forward == 0 || rows == 1));
          CHECK(found.backward == found.forward);
          e.split(blocks);
          const Index halo = rows * halo_floats(model.network(), own.grid, own.block);
          CHECK(e.halo_sent == halo);
          CHECK(e.halo_returned == halo);
        }
      }
    }
}
