// Parts of an ensemble work in one folder: all ranks of a part go by what its root has read there.
#include <doctest/doctest.h>

#include <filesystem>

#include "io/files/output_file.hpp"
#include "kernels/errors.hpp"
#include "src/ensemble/ensemble.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using namespace mrmf::test;

TEST_CASE("Ensemble: ranks that see other files than the root go by what the root has read") {
  Comm world = Comm::world();
  const TemporaryFolder folder;  // of each rank its own: only the root's has journals
  EnsembleSpec spec;
  spec.folder = folder.path();
  if (world.root()) {
    std::filesystem::create_directory(folder.path() + "/part-1");
    Journal(folder.path() + kJournalName).append(std::vector<Attempt>{{0, true, 1, 0.1, 0xfedcba9876543210, ""}});
    Journal(folder.path() + "/part-1" + kJournalName)
        .append(std::vector<Attempt>{{2, false, 1, 0.3, 0, "says \"no\" \xc3\xa4"}, {2, true, 2, 0.7, 3, ""}});
  }
  const Members members = members_from_root(spec, 4, world);
  REQUIRE(members.states.size() == 4);
  CHECK(members.done() == 2);
  CHECK(members.states[0].row == 0xfedcba9876543210);
  CHECK(members.states[0].seconds == 0.1);
  CHECK(members.states[2].attempts == 2);
  CHECK(members.states[2].folder_index == 1);
  CHECK_FALSE(members.states[1].done);
  REQUIRE(members.folders.size() == 2);
  CHECK(world.all_equal(std::hash<std::string>{}(members.folders[1])));
}

TEST_CASE("Ensemble: ranks go by the rounds that the root has read, and end with its error") {
  Comm world = Comm::world();
  const TemporaryFolder folder;
  EnsembleSpec spec;
  spec.folder = folder.path();
  if (world.root()) {
    std::filesystem::create_directory(folder.path() + "/rounds");
    LineFile(folder.path() + "/rounds/rounds.jsonl", LineFile::Start::append)
        .write(R"({"points": [[0.1, 3], [2, 4]]})");
  }
  const RoundPoints rounds = rounds_from_root(spec, world);
  CHECK(rounds.rounds == 1);
  CHECK(rounds.points == std::vector<Point>{{0.1, 3}, {2, 4}});
  if (world.root()) LineFile(folder.path() + "/rounds/rounds.jsonl", LineFile::Start::append).write("damaged");
  CHECK_THROWS_AS(rounds_from_root(spec, world), DataError);
}
