#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/hdf5/file.hpp"
#include "io/hdf5/output.hpp"
#include "io/rows/sample_order.hpp"
#include "mpi/comm.hpp"
#include "tests/mpi/shared_folder.hpp"

using namespace mrmf;

namespace {

const std::string json = "{\"cells\": [\"bbp102\"], \"note\": \"written by the root\"}";

/// A file as simulate and checkpoints write them: each rank its part of the rows, some ranks none.
void write(const std::string& path, Index rows, const Comm& comm) {
  Hdf5Output file(path, Replace::nothing, comm);
  file.create_dataset("train_frames", {rows, 5, 3});
  file.create_dataset("parameters/conv1/weight", {rows, 2});
  file.create_dataset("parameters/conv1/bias", {3});
  file.create_dataset("train_unitStar_par", {rows, 4});
  const Range mine = piece(rows, comm.rank(), comm.size());
  for (const auto& [name, width] :
       {std::pair<std::string, Index>{"train_frames", 15}, {"train_unitStar_par", 4}, {"parameters/conv1/weight", 2}})
    file.write_rows(name, mine.first, test::ramp(mine.count * width, static_cast<float>(mine.first * width)));
  if (comm.root()) file.write_rows("parameters/conv1/bias", 0, test::ramp(3));
  file.write_text("meta.JSON", json);
  file.write_attribute("plan", "two fusions");
  file.commit();
}

}  // namespace

TEST_CASE("hdf5: a file has the same bytes for any number of ranks") {
  Comm world = Comm::world();
  const test::SharedFolder folder(world);
  for (const Index rows : {2, 23, 1001}) {
    const std::string many = folder.file("many" + std::to_string(rows)),
                      one = folder.file("one" + std::to_string(rows));
    write(many, rows, world);
    if (world.root()) write(one, rows, Comm::self());
    world.barrier();
    const std::string bytes = test::read_bytes(many);
    CHECK(bytes.size() > static_cast<std::size_t>(rows) * 21 * 4);
    CHECK((bytes == test::read_bytes(one)));
  }
}

TEST_CASE("hdf5: every rank reads what all of them wrote") {
  Comm world = Comm::world();
  const test::SharedFolder folder(world);
  const std::string path = folder.file("data.h5");
  const Index rows = 23;
  write(path, rows, world);
  const Hdf5File file = Hdf5File::open(path, world);
  std::vector<float> all(static_cast<std::size_t>(rows) * 15);
  file.read_rows("train_frames", 0, rows, all);
  CHECK((all == test::ramp(rows * 15)));
  CHECK(file.read_text("meta.JSON") == json);
  CHECK(file.read_attribute("plan") == "two fusions");

  // Reading needs no other rank: each does a different number of reads.
  for (Index row = 0; row < world.rank(); ++row) {
    std::vector<float> labels(4);
    file.read_rows("train_unitStar_par", row, 1, labels);
    CHECK((labels == test::ramp(4, static_cast<float>(row * 4))));
  }
}

TEST_CASE("hdf5: what the root finds wrong with a file, all ranks throw") {
  Comm world = Comm::world();
  const test::SharedFolder folder(world);
  const std::string missing = folder.file("missing.h5"), garbage = folder.file("garbage.h5");
  const auto refusal = [&](const std::string& path) {
    return test::message<DataError>([&] { Hdf5File::open(path, world); });
  };
  CHECK(refusal(missing).find(missing + ": no such file") != std::string::npos);
  if (world.root()) test::write_bytes(garbage, "not a data file");
  world.barrier();
  CHECK(refusal(garbage).find("not an HDF5 file") != std::string::npos);
  const std::string nowhere = folder.file("no/folder/out.h5");
  CHECK(test::message<DataError>([&] {
          Hdf5Output(nowhere, Replace::nothing, world);
        }).find("No such file or directory") != std::string::npos);
  CHECK(world.sum(1.0) == world.size());  // the ranks are still in step
}

TEST_CASE("hdf5: an error in a collective call reaches all ranks, and the file can still be finished") {
  Comm world = Comm::world();
  const test::SharedFolder folder(world);
  Hdf5Output file(folder.file("twice.h5"), Replace::nothing, world);
  file.create_dataset("x", {4});
  CHECK_THROWS_AS(file.create_dataset("x", {4}), DataError);
  if (world.root()) file.write_rows("x", 0, test::ramp(4));
  file.commit();
  CHECK(Hdf5File::open(folder.file("twice.h5"), world).has("x"));
}

TEST_CASE("hdf5: rows that one rank did not write are an error of all, and no file") {
  Comm world = Comm::world();
  const test::SharedFolder folder(world);
  const std::string target = folder.file("out.h5");
  {
    Hdf5Output file(target, Replace::nothing, world);
    file.create_dataset("x", {world.size(), 3});
    if (world.rank() != world.size() - 1) file.write_rows("x", world.rank(), test::ramp(3));
    CHECK_THROWS_AS(file.commit(), FaultError);
  }
  world.barrier();
  CHECK_FALSE(std::filesystem::exists(target));
}

TEST_CASE("hdf5: one rank's exception unwinds past an open file without waiting for the others") {
  Comm world = Comm::world();
  const test::SharedFolder folder(world);
  const std::string target = folder.file("out.h5");
  const bool bad = world.rank() == world.size() - 1;
  bool caught = false;
  std::string partial;
  try {
    Hdf5Output file(target, Replace::nothing, world);
    file.create_dataset("x", {4});
    if (bad) throw DataError("this rank's own trouble");
    world.barrier();  // the others continue, and would not meet the bad rank in a collective close
    throw DataError("told by the bad rank");
  } catch (const DataError&) {
    caught = true;
    if (bad) world.barrier();
  }
  CHECK(caught);
  world.barrier();
  CHECK(std::filesystem::is_empty(std::filesystem::path(target).parent_path()));
}

TEST_CASE("output file: what one rank reads back wrong, or finds in its place, is an error of all") {
  Comm world = Comm::world();
  const test::SharedFolder folder(world);
  const std::string target = folder.file("out");
  {
    OutputFile file(target, Replace::nothing, world);
    const std::vector<float> mine = test::ramp(100, static_cast<float>(world.rank()));
    const auto bytes = std::as_bytes(std::span(mine));
    file.write(static_cast<std::uint64_t>(world.rank()) * bytes.size(), bytes);
    if (world.rank() == world.size() - 1) {
      std::fstream disk(file.path(), std::ios::in | std::ios::out);
      disk.seekp(world.rank() * 400 + 17);
      disk << "x";
    }
    CHECK_THROWS_AS(file.commit(), DataError);
  }
  {
    OutputFile late(target, Replace::nothing, world);
    if (world.root()) {
      late.append("late");
      test::write_bytes(target, "first");
    }
    world.barrier();
    CHECK_THROWS_AS(late.commit(), ConfigError);
  }
  world.barrier();
  CHECK(test::read_bytes(target) == "first");
}
