// Training on streamed samples: the same numbers as from memory on any number of ranks, and errors that reach all.
#include <doctest/doctest.h>

#include <cmath>

#include "src/method/pipeline.hpp"
#include "tests/mpi/shared_folder.hpp"
#include "tests/support/stored_files.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

constexpr Index kStreamedSamples = 67, kLength = 40;

/// Two files of different length, one contiguous and one compressed, and what training on them takes.
struct Streams {
  Comm world = Comm::world();
  SharedFolder folder{world};
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Config config;

  Streams() {
    const std::vector<std::string> files{folder.file("a.h5"), folder.file("b.h5")};
    if (world.root()) {
      const StoredAs packed{.type = StoredAs::Type::uint16, .chunk_rows = 1, .deflate = true, .shuffle = true};
      write(files[0], 40, {.type = StoredAs::Type::uint16}, 1);
      write(files[1], kStreamedSamples - 40, packed, 3);
    }
    world.barrier();
    config.data.train = config.data.validation = {files, "x", "y", SampleLayout::as_stored};
    config.model.layers = small_layers();
    config.training.batch = 5;
    config.training.epochs = 2;
    config.method.name = MethodName::mrmf;
    config.method.resolutions = {{1, 1, 2}, {1, 1, 1}};
    config.method.axes = 1;
  }
  static void write(const std::string& path, Index rows, const StoredAs& as, std::uint64_t seed) {
    std::vector<float> x = random_values(rows * kLength * 2, seed);
    for (float& value : x) value = std::round(500 + 100 * value);
    write_stored(path, "x", {rows, kLength, 2}, as, x);
    write_floats(path, "y", {rows, 3}, random_values(rows * 3, seed + 1));
  }

  /// Losses of every stage's last epoch.
  std::vector<double> train() {
    Data data(config, world);
    CHECK(data.streams() == (config.data.load == LoadRule::stream));
    RunLog silent;
    const Outcome outcome = run_pipeline(make_plan(config), config, {*backend, world, data, silent});
    std::vector<double> losses;
    for (const PhaseRecord& stage : outcome.phases) {
      losses.push_back(stage.last.train_loss);
      losses.push_back(stage.last.validation_loss);
    }
    return losses;
  }
};

}  // namespace

TEST_CASE("streaming: training gives the losses of training from memory, bit for bit") {
  Streams streams;
  const std::vector<double> expected = streams.train();
  streams.config.data.load = LoadRule::stream;
  // Of each split a batch and the next take 1.6 kB, what averaging readers need 3.2 kB, unpacking 0.3 kB, and all
  // samples of the only rank 11 kB.
  const std::vector<std::pair<Averaging, double>> kilobytes{
      {Averaging::load, 12}, {Averaging::load, 1000}, {Averaging::epoch, 6}, {Averaging::epoch, 1000}};
  for (const auto& [averaging, per_rank] : kilobytes) {
    CAPTURE(per_rank);
    streams.config.data.averaging = averaging;
    streams.config.data.memory = per_rank * 1e-6 * streams.world.size();
    CHECK(streams.train() == expected);
  }
}

TEST_CASE("streaming: a sample that one rank cannot read ends training on every rank") {
  Streams streams;
  streams.config.data.load = LoadRule::stream;
  if (streams.world.root()) damage_chunk(streams.config.data.train.files[1], "x", 26);
  streams.world.barrier();
  const std::string text = message<DataError>([&] { streams.train(); });
  CHECK(text.find("b.h5: data set 'x' cannot be read from row 26") != std::string::npos);
  CHECK(streams.world.sum(1.0) == streams.world.size());  // nobody is left in another collective call
}

TEST_CASE("streaming: memory for less than a batch and the next is refused on every rank, before samples are read") {
  Streams streams;
  streams.config.data.load = LoadRule::stream;
  streams.config.data.memory = 2e-6;
  const std::string text = message<ConfigError>([&] { Data(streams.config, streams.world); });
  CHECK(text.find("data.memory gives ") != std::string::npos);
  CHECK(text.find("but labels, one batch and the next need ") != std::string::npos);
  CHECK(streams.world.sum(1.0) == streams.world.size());
}
