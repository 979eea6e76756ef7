// Rows that are the same under several names, from where they lie.
#include <doctest/doctest.h>

#include "io/rows/duplicate_rows.hpp"

using namespace mrmf;

namespace {

constexpr ObjectIdentity kX{{1, 10}, 800}, kY{{1, 10}, 900}, kOther{{1, 11}, 800};

FileRows plain(Index rows, const ObjectIdentity& array, Index from = 0) { return {rows, {{{0, rows, array, from}}}}; }

}  // namespace

TEST_CASE("same rows: an array under two names, and none where arrays, files or rows differ") {
  CHECK(!find_same_rows({plain(40, kX), plain(40, kY), plain(40, kOther)}));
  CHECK(!find_same_rows({plain(40, kX), plain(40, kX, 40)}));  // the next rows of the same array
  CHECK(find_same_rows({plain(40, kX), plain(40, kOther), plain(40, kX)}) == SameRows{{0, 0, 40}, {2, 0, 40}});
  CHECK(find_same_rows({plain(40, kX), plain(40, kX, 30)}) == SameRows{{0, 30, 10}, {1, 0, 10}});
}

TEST_CASE("same rows: of a virtual data set, stretch by stretch, and within it") {
  const FileRows master{80, {{{0, 40, kX, 0}, {40, 40, kOther, 0}}}};
  CHECK(find_same_rows({master, plain(40, kOther)}) == SameRows{{0, 40, 40}, {1, 0, 40}});
  CHECK(find_same_rows({plain(40, kOther), master}) == SameRows{{0, 0, 40}, {1, 40, 40}});
  CHECK(!find_same_rows({master, plain(40, kY)}));
  const FileRows twice{60, {{{0, 40, kX, 0}, {40, 20, kX, 10}}}};
  CHECK(find_same_rows({twice}) == SameRows{{0, 10, 20}, {0, 40, 20}});
  const FileRows even{3, {{{0, 1, kX, 0}, {1, 1, kX, 2}, {2, 1, kX, 4}}}},
      odd{3, {{{0, 1, kX, 1}, {1, 1, kX, 3}, {2, 1, kX, 5}}}};
  CHECK(!find_same_rows({even, odd}));
  CHECK(find_same_rows({odd, plain(6, kX)}) == SameRows{{0, 0, 1}, {1, 1, 1}});
}

TEST_CASE("same rows: of several names all must be the same, at the same distance") {
  const auto both = [](const ObjectIdentity& a, Index at_a, const ObjectIdentity& b, Index at_b) {
    return FileRows{20, {{{0, 20, a, at_a}}, {{0, 20, b, at_b}}}};
  };
  CHECK(find_same_rows({both(kX, 0, kY, 0), both(kX, 5, kY, 5)}) == SameRows{{0, 5, 15}, {1, 0, 15}});
  CHECK(!find_same_rows({both(kX, 0, kY, 0), both(kX, 5, kY, 6)}));
  CHECK(!find_same_rows({both(kX, 0, kY, 0), both(kX, 0, kOther, 0)}));  // one field shared by all files
  CHECK(!find_same_rows({both(kX, 0, kY, 0), both(kY, 0, kX, 0)}));      // the fields in another order
  const FileRows cut{20, {{{0, 8, kX, 0}, {8, 12, kX, 30}}, {{0, 20, kY, 0}}}};
  CHECK(find_same_rows({both(kX, 0, kY, 0), cut}) == SameRows{{0, 0, 8}, {1, 0, 8}});
}

TEST_CASE("same rows: another part of each row is another row, and so is one of several parts") {
  const FileRows left{9, {{{0, 9, kX, 0, {0, 1, 1, 4}}}}}, right{9, {{{0, 9, kX, 0, {4, 1, 1, 4}}}}};
  CHECK(!find_same_rows({left, right, plain(9, kX)}));
  CHECK(find_same_rows({left, right, left}) == SameRows{{0, 0, 9}, {2, 0, 9}});
  const FileRows joined{9, {{{0, 9, kX, 0, {0}}, {0, 9, kY, 0, {1}}}}};
  CHECK(!find_same_rows({joined, plain(9, kX), plain(9, kY)}));
  CHECK(find_same_rows({joined, joined}) == SameRows{{0, 0, 9}, {1, 0, 9}});
}

TEST_CASE("same rows: rows without an origin are nobody's") {
  const FileRows gap{40, {{{0, 10, kX, 0}, {30, 10, kX, 30}}}};
  CHECK(find_same_rows({gap, plain(5, kX, 20)}) == std::nullopt);
  CHECK(find_same_rows({gap, plain(5, kX, 28)}) == SameRows{{0, 30, 3}, {1, 2, 3}});
  CHECK(!find_same_rows({FileRows{40, {{{0, 40, kX, 0}}, {}}}, plain(40, kX)}));
  CHECK(!find_same_rows({}));
}

TEST_CASE("same rows: of one list, those that are also in another, where they are taken") {
  const std::vector<bool> all(40, true);
  std::vector<bool> some = all;
  some[3] = some[4] = some[39] = false;
  CHECK(rows_also_in({plain(40, kX)}, {plain(40, kX)}, {all}) == std::vector<RowLocation>{{0, 0, 40}});
  CHECK(rows_also_in({plain(40, kX)}, {plain(40, kY), plain(40, kOther)}, {all, all}).empty());
  CHECK(rows_also_in({plain(40, kX)}, {plain(40, kX)}, {some}) == std::vector<RowLocation>{{0, 0, 3}, {0, 5, 34}});
  // A master of both arrays, the later one's rows first, of which a part was taken by way of another file.
  const FileRows master{80, {{{0, 40, kOther, 0}, {40, 40, kX, 0}}}};
  const std::vector<FileRows> twice{plain(40, kX), plain(10, kX, 35)};
  CHECK(rows_also_in({plain(9, kY), master}, twice, {some, std::vector<bool>(10, true)}) ==
        std::vector<RowLocation>{{1, 40, 3}, {1, 45, 35}});
  CHECK(rows_also_in({plain(9, kY), master}, {plain(40, kX)}, {some}) ==
        std::vector<RowLocation>{{1, 40, 3}, {1, 45, 34}});
  CHECK(rows_also_in({plain(10, kX, 5)}, {master}, {std::vector<bool>(80, true)}) ==
        std::vector<RowLocation>{{0, 0, 10}});
  CHECK(rows_also_in({}, {plain(40, kX)}, {all}).empty());
}

TEST_CASE("same rows: of very many pieces") {
  constexpr Index kRows = 1 << 18;
  FileRows one{kRows, {{}, {}}};
  for (Index row = 0; row < kRows; ++row)  // each in a place of its own, so that the rows of no two are one stretch
    for (std::size_t name = 0; name < 2; ++name)
      one.names[name].push_back({row, 1, name == 0 ? kX : kY, 2 * row, {static_cast<Index>(name)}});
  CHECK(!find_same_rows({one}));
  FileRows again = one;
  again.names[0].back().row = again.names[1].back().row = 6;
  CHECK(find_same_rows({again}) == SameRows{{0, 3, 1}, {0, kRows - 1, 1}});
}
