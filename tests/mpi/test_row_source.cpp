// The headers of many files, read by all ranks together.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "io/rows/dataset.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"
#include "tests/mpi/shared_folder.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;

namespace {

constexpr int kFiles = 23;

/// Files of one sample each, whose first number and label are the file's number.
DatasetSpec write_each(Comm& world, const test::SharedFolder& folder) {
  DatasetSpec spec{{}, "x", "y"};
  spec.rows = RowsBy::files;
  for (int i = 0; i < kFiles; ++i) {
    spec.files.push_back(folder.file("s" + std::to_string(i) + ".h5"));
    if (!world.root()) continue;
    test::write_floats(spec.files.back(), "x", {4, 2}, test::ramp(8, static_cast<float>(i)));
    test::write_floats(spec.files.back(), "y", {1}, {static_cast<float>(i)});
  }
  world.barrier();
  return spec;
}

void replace(Comm& world, const std::string& path, std::int64_t width) {
  if (world.root()) {
    std::filesystem::remove(path);
    test::write_floats(path, "x", {width, 2}, test::ramp(width * 2));
    test::write_floats(path, "y", {1}, {0});
  }
  world.barrier();
}

}  // namespace

TEST_CASE("row sources: a file a sample, the same on all ranks") {
  Comm world = Comm::world();
  const test::SharedFolder folder(world);
  const DatasetSpec spec = write_each(world, folder);
  const DatasetShape shape = inspect_dataset(spec, world);
  CHECK(shape == DatasetShape{kFiles, {0, {1, 1, 4}, 2, 1}, {.channels = 1}, std::vector<Index>(kFiles, 1)});
  require_same_data(spec, &shape, world);
  const RowSources sources(spec, shape, {"x", "y"});
  for (std::size_t i = 0; i < kFiles; ++i) {
    float y = -1;
    (*sources.at(i))[1]->read(0, 1, reinterpret_cast<std::byte*>(&y));
    CHECK(y == static_cast<float>(i));
  }
}

TEST_CASE("row sources: of several files that are unlike, all ranks name the first") {
  Comm world = Comm::world();
  const test::SharedFolder folder(world);
  const DatasetSpec spec = write_each(world, folder);
  for (const std::size_t bad : {20, 9, 14}) replace(world, spec.files[bad], 5);
  CHECK(test::message<DataError>([&] { inspect_dataset(spec, world); }) ==
        spec.files[9] + ": data set 'x' has samples of 5x2, but " + spec.files[0] + " has 4x2; leave one of them out");
  replace(world, spec.files[9], 4);
  if (world.root()) std::filesystem::remove(spec.files[11]);
  world.barrier();
  CHECK(test::message<DataError>([&] { inspect_dataset(spec, world); }).find("s11.h5: no such file") !=
        std::string::npos);
}

// A file that is gone would be missed.
TEST_CASE("row sources: the second part of a split opens no file again") {
  Comm world = Comm::world();
  const test::SharedFolder folder(world);
  DatasetSpec train = write_each(world, folder), validation = train;
  train.choice.part = Subset::train;
  train.choice.validation = validation.choice.validation = 0.25;
  validation.choice.part = Subset::validation;
  REQUIRE(have_same_headers(train, validation));
  const DatasetShape first = inspect_dataset(train, world), whole = inspect_dataset(validation, world);
  if (world.root()) std::filesystem::remove(train.files[7]);
  world.barrier();
  const DatasetShape second = inspect_dataset(validation, {train, first}, world);
  CHECK(second == whole);
  CHECK(first.samples + second.samples == kFiles);
  CHECK(test::message<DataError>([&] { inspect_dataset(validation, world); }).find("s7.h5: no such file") !=
        std::string::npos);
  DatasetSpec others = validation;
  others.samples = "y";
  CHECK(!have_same_headers(train, others));
}
