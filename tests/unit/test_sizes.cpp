// Sizes from files, and rows cut by chunks.
#include "io/files/input_file.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <set>

#include "io/files/text.hpp"
#include "io/hdf5/rows.hpp"

using namespace mrmf;

TEST_CASE("sizes: what no machine holds is refused with its shape") {
  const auto refusal = [](const std::vector<Index>& shape) {
    try {
      require_countable(shape, "x");
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal({}).empty());
  CHECK(refusal({96, 64, 3}).empty());
  CHECK(refusal({0, Index{1} << 34}).empty());
  CHECK(refusal({Index{1} << 40, 1 << 12}).empty());
  CHECK(refusal({Index{1} << 62, 64, 3}).find("x has shape (4611686018427387904, 64, 3)") == 0);
  CHECK(refusal({1, Index{1} << 35}).find("(1, 34359738368)") != std::string::npos);
  CHECK(refusal({0, Index{1} << 35}).find("(0, 34359738368)") != std::string::npos);  // a row of it
  CHECK(refusal({Index{1} << 41, 1 << 12}) != "");
  CHECK(refusal({4, std::numeric_limits<Index>::min(), 0}).find("(4, 9223372036854775808, 0)") != std::string::npos);
  CHECK(saturated_product(1 << 20, 1 << 20) == Index{1} << 40);
  CHECK(saturated_product(Index{1} << 40, Index{1} << 40) == std::numeric_limits<Index>::max());
  CHECK(saturated_product(std::numeric_limits<Index>::max(), 0) == 0);
}

TEST_CASE("chunks: a box is cut along their borders, each element once, few chunks at a time") {
  const std::vector<Index> chunk{2, 3, 4};
  const h5::ContiguousBox box{{1, 2, 3}, {4, 7, 9}, 4 * 7 * 9};
  CHECK(h5::chunks_of(box, chunk) == 3 * 3 * 3);
  CHECK(h5::chunks_of({{0, 0, 0}, {2, 3, 4}, 24}, chunk) == 1);
  for (const Index most : {1, 2, 3, 5, 9, 26, 27, 100}) {
    CAPTURE(most);
    std::set<std::vector<Index>> seen;
    Index elements = 0;
    h5::for_each_chunk_group(box, chunk, most, [&](const h5::ContiguousBox& part) {
      CHECK(h5::chunks_of(part, chunk) <= most);
      elements += part.elements;
      for (Index i = part.first[0]; i < part.first[0] + part.count[0]; ++i)
        for (Index j = part.first[1]; j < part.first[1] + part.count[1]; ++j)
          for (Index k = part.first[2]; k < part.first[2] + part.count[2]; ++k) seen.insert({i, j, k});
    });
    CHECK(elements == box.elements);
    CHECK(std::ssize(seen) == box.elements);
    CHECK(*seen.begin() == box.first);
    CHECK(*seen.rbegin() == std::vector<Index>{4, 8, 11});
  }
}

TEST_CASE("nearest: of many names the ten nearest are listed") {
  CHECK(list_near("x", {"c", "a"}) == "c, a");
  std::vector<std::string> names;
  for (int i = 100; i < 200; ++i) names.push_back("cube" + std::to_string(i));
  const std::string list = list_near("cube177x", names);
  CHECK(list.find("cube177, ") == 0);
  CHECK(list.find(" and 90 more") != std::string::npos);
  CHECK(list_near("x", {std::string(5000, 'y')}).size() < 110);
}
