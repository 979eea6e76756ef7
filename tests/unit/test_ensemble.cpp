// Designs and journals of ensembles (src/ensemble).
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "kernels/errors.hpp"
#include "src/ensemble/ensemble.hpp"
#include "src/ensemble/spec_and_design.hpp"
#include "src/simulators/member_simulator.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;

namespace {

Axis range(double from, double to) {
  Axis axis;
  axis.key = "x", axis.from = from, axis.to = to;
  return axis;
}

}  // namespace

TEST_CASE("ensemble: Sobol's sequence is that of Joe and Kuo") {
  // The first points of the first three coordinates, by hand: in 1/8ths.
  const std::uint32_t eighth = std::uint32_t{1} << 29;
  const std::uint32_t expected[8][3] = {{0, 0, 0}, {4, 4, 4}, {6, 2, 2}, {2, 6, 6},
                                        {3, 3, 5}, {7, 7, 1}, {5, 1, 7}, {1, 5, 3}};
  for (std::uint64_t i = 0; i < 8; ++i)
    for (std::size_t k = 0; k < 3; ++k) CHECK(sobol_bits(i, k) == expected[i][k] * eighth);
  // Every coordinate takes each of 1024 strata once: a wrong direction number would repeat one.
  for (std::size_t k = 0; k < kMostSobolKeys; ++k) {
    std::set<std::uint32_t> strata;
    for (std::uint64_t i = 0; i < 1024; ++i) strata.insert(sobol_bits(i, k) >> 22);
    CHECK(strata.size() == 1024);
  }
}

TEST_CASE("ensemble: a random shift keeps a Sobol point in each stratum, and depends on the seed") {
  const auto one = sobol_points(5, 0, 64, 1), other = sobol_points(5, 0, 64, 2);
  CHECK(one != other);
  for (std::size_t k = 0; k < 5; ++k) {
    std::set<int> strata;
    for (const Point& point : one) strata.insert(static_cast<int>(point[k] * 64));
    CHECK(strata.size() == 64);
  }
  CHECK(sobol_points(5, 60, 4, 1).front() == one[60]);
}

TEST_CASE("ensemble: of a Latin hypercube every key has a point in each stratum") {
  const auto points = latin_hypercube(3, 50, 7);
  CHECK(points == latin_hypercube(3, 50, 7));
  CHECK(points != latin_hypercube(3, 50, 8));
  for (std::size_t k = 0; k < 3; ++k) {
    std::set<int> strata;
    for (const Point& point : points) strata.insert(static_cast<int>(point[k] * 50));
    CHECK(strata.size() == 50);
  }
}

TEST_CASE("ensemble: coordinates of ranges, logarithms, whole numbers and lists") {
  CHECK(coordinate(range(2, 4), 0.25) == doctest::Approx(2.5));
  Axis logarithmic = range(1e-4, 1e-2);
  logarithmic.logarithmic = true;
  CHECK(coordinate(logarithmic, 0.5) == doctest::Approx(1e-3));
  CHECK(share_of(logarithmic, 1e-3) == doctest::Approx(0.5));
  Axis whole = range(1, 3);
  whole.whole = true;
  CHECK(coordinate(whole, 0) == 1);
  CHECK(coordinate(whole, 0.34) == 2);
  CHECK(coordinate(whole, 0.999) == 3);
  Axis words = range(0, 1);
  words.values = {"cosine", "linear"}, words.words = true;
  CHECK(words.text(coordinate(words, 0.6)) == "linear");
  Axis numbers = range(16, 64);
  numbers.values = {"16", "32", "64"};
  CHECK(coordinate(numbers, 0.4) == 32);
}

TEST_CASE("ensemble: a journal holds whole lines alone") {
  const test::TemporaryFolder scratch;
  const std::string path = scratch.file("journal.txt");
  const std::vector<Attempt> attempts{{7, true, 1, 0.5, 0xabcdef0123456789ULL, ""},
                                      {8, false, 2, 0.25, 0, "exit code 1: \"no\""}};
  Journal(path).append(attempts);
  JournalText text = read_journal(path);
  REQUIRE(text.attempts.size() == 2);
  CHECK(text.damaged.empty());
  CHECK(text.attempts[0].row == attempts[0].row);
  CHECK(text.attempts[0].done);
  CHECK(text.attempts[1].reason == attempts[1].reason);
  CHECK(text.attempts[1].number == 2);

  // A kill in the middle of a line: the torn one does not count, and the next is not glued to it.
  std::string bytes = read_file(path);
  bytes.resize(bytes.size() - 9);
  write_file(path, bytes, Replace::file);
  CHECK(read_journal(path).damaged == std::vector<Index>{2});
  Journal(path).append(std::vector<Attempt>{{9, true, 1, 1, 3, ""}});
  text = read_journal(path);
  REQUIRE(text.attempts.size() == 2);
  CHECK(text.attempts[1].member == 9);
  CHECK(text.damaged == std::vector<Index>{2});

  // A flipped bit.
  bytes = read_file(path);
  bytes[25] ^= 1;
  write_file(path, bytes, Replace::file);
  CHECK(read_journal(path).damaged == std::vector<Index>{1, 2});
}

TEST_CASE("ensemble: which members validate follows from seed and number alone") {
  std::vector<Index> all(400), even;
  for (Index m = 0; m < 400; ++m) {
    all[static_cast<std::size_t>(m)] = m;
    if (m % 2 == 0) even.push_back(m);
  }
  const std::vector<bool> chosen = validation_members(all, 0.2, 3), of_even = validation_members(even, 0.2, 3);
  for (std::size_t i = 0; i < even.size(); ++i) CHECK(chosen[2 * i] == of_even[i]);
  const auto count = std::ranges::count(chosen, true);
  CHECK(count > 50);
  CHECK(count < 110);
  CHECK(std::ranges::count(validation_members({4, 5}, 0.001, 1), true) == 1);
  CHECK(std::ranges::count(validation_members({4, 5}, 0.999, 1), true) == 1);
}

TEST_CASE("ensemble: candidates are taken by disagreement, and none beside another") {
  const std::vector<Point> candidates{{0.50}, {0.51}, {0.9}, {0.1}};
  CHECK(choose_candidates(candidates, {1, 0.9, 0.2, 0.1}, 2) == std::vector<std::size_t>{0, 2});
  CHECK(choose_candidates(candidates, {0.1, 0.2, 0.3, 1}, 1) == std::vector<std::size_t>{3});
  CHECK(choose_candidates(candidates, {1, 1, 1, 1}, 9).size() == 4);
}

TEST_CASE("ensemble: a member's bytes do not depend on the members beside it") {
  for (const std::string& name : simulator_names()) {
    CAPTURE(name);
    const std::vector<SimulatorKey> keys = simulator_keys(name);
    std::vector<double> values;
    for (const SimulatorKey& key : keys)
      values.push_back(key.name == "size" ? 16 : key.name == "milliseconds" ? 30 : key.standard);
    const auto simulator = make_member_simulator(name, values);
    const auto bytes = static_cast<std::size_t>(bytes_of(simulator->parts()));
    const auto memory = simulator->memory();
    std::vector<std::vector<double>> points(3, values);
    for (std::size_t k = 0; k < keys.size(); ++k)
      if (!keys[k].fixed && !keys[k].whole) points[1][k] = keys[k].standard + 0.05 * (keys[k].most - keys[k].standard);
    std::vector<std::byte> together(3 * bytes), alone(bytes);
    std::vector<MemberTask> tasks;
    for (std::size_t m = 0; m < 3; ++m)
      tasks.push_back({static_cast<Index>(m + 10), points[m], std::span(together).subspan(m * bytes, bytes), {}});
    simulator->make(tasks, *memory);
    for (std::size_t m = 0; m < 3; ++m) {
      CHECK(tasks[m].error.empty());
      std::vector<MemberTask> one{{static_cast<Index>(m + 10), points[m], alone, {}}};
      simulator->make(one, *memory);
      CHECK(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<std::ptrdiff_t>(m * bytes)));
    }
    CHECK(!std::equal(together.begin(), together.begin() + static_cast<std::ptrdiff_t>(bytes),
                      together.begin() + static_cast<std::ptrdiff_t>(bytes)));
  }
}
