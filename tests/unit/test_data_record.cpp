// What is remembered of data files: which numbers are looked at, and that only these decide.
#include <doctest/doctest.h>

#include "io/rows/data_record.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using namespace mrmf::test;

TEST_CASE("data record: the places that are read are few, spread over all rows, and follow from the shape") {
  const h5::Glance glance{1000, 4, 100};
  CHECK(h5::glance_blocks({10, 25}, 4, glance).size() == 1);  // 1000 bytes: all
  CHECK(h5::glance_blocks({10, 25}, 4, glance)[0].elements == 250);
  const auto rows = h5::glance_blocks({1000, 5}, 4, glance);  // runs of five rows
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].first[0] == 0);
  CHECK(rows[0].count[0] == 5);
  CHECK(rows[3].first[0] == 995);
  const auto pieces = h5::glance_blocks({1000, 400}, 4, glance);  // rows longer than a block
  REQUIRE(pieces.size() == 4);
  CHECK(pieces[3].first == std::vector<Index>{999, 187});
  CHECK(pieces[3].count == std::vector<Index>{1, 25});
  CHECK(h5::glance_blocks({0, 5}, 4, glance).empty());
  CHECK(h5::glance_blocks({5, 0}, 4, glance).empty());
}

TEST_CASE("data record: files that both parts use stand once, with the names of both") {
  const DatasetSpec train{.files = {"a.h5", "b.h5"}, .samples = "x", .labels = "y"};
  DatasetSpec validation = train;
  validation.samples = "v";
  auto files = used_files(train, validation);
  REQUIRE(files.size() == 2);
  CHECK(files[1].datasets == std::vector<std::string>{"v", "x", "y"});
  validation.files = {"c.h5"};
  files = used_files(train, validation);
  REQUIRE(files.size() == 3);
  CHECK(files[0].datasets == std::vector<std::string>{"x", "y"});
  CHECK(files[2].datasets == std::vector<std::string>{"v", "y"});
}
