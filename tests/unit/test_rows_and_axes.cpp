// Which rows are samples, in which order their axes lie, and in which units a network sees them.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "io/files/file_names.hpp"
#include "io/files/input_file.hpp"
#include "io/rows/split.hpp"
#include "io/rows/split_column_and_groups.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/errors.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::message;

TEST_CASE("axes: names say where channels are") {
  CHECK_FALSE(parse_axes("").given());
  CHECK(parse_axes("n t c").channel == 1);
  CHECK_FALSE(parse_axes("n t c").moves());
  CHECK(parse_axes("n,c,y,x").channel == 0);
  CHECK(parse_axes("ncyx").moves());
  CHECK(parse_axes("n y c x").channel == 1);
  CHECK(parse_axes("n y x").channel == -1);
  CHECK_FALSE(parse_axes("n y x").moves());
  for (const char* bad : {"n", "t n c", "n t t", "n a b d e", "n a b d e c"})
    CHECK_MESSAGE(!message<ConfigError>([&] { parse_axes(bad); }).empty(), bad);

  CHECK(channels_last({7, 2, 4, 5}, parse_axes("n c y x"), "x") == std::vector<Index>{7, 4, 5, 2});
  CHECK(channels_last({7, 4, 2, 5}, parse_axes("n y c x"), "x") == std::vector<Index>{7, 4, 5, 2});
  CHECK(channels_last({7, 4, 5}, parse_axes("n y x"), "x") == std::vector<Index>{7, 4, 5, 1});
  CHECK(message<DataError>([&] { channels_last({7, 4}, parse_axes("n y x"), "x"); }).starts_with("x has 2 axes"));
}

TEST_CASE("axes: what a file calls them says what they are") {
  for (const char* name : {"lat", "Longitude", "x", "lon_0", "rlat", "south_north"})
    CHECK_MESSAGE(axis_kind(std::string(name)) == AxisKind::horizontal, name);
  for (const char* name : {"level", "plev", "z", "depth", "lev_2"})
    CHECK_MESSAGE(axis_kind(std::string(name)) == AxisKind::vertical, name);
  CHECK(axis_kind(std::string("Time")) == AxisKind::time);
  CHECK(axis_kind(std::string("bands")) == AxisKind::channels);
  for (const char* name : {"", "12", "_", "phony_dim_1", "latent", "row_id"})
    CHECK_MESSAGE(axis_kind(std::string(name)) == AxisKind::unknown, name);
  CHECK(axis_kind(CoordinateSaid{.axis = "Y"}) == AxisKind::horizontal);
  CHECK(axis_kind(CoordinateSaid{.axis = "z", .units = "degrees_north"}) == AxisKind::vertical);
  CHECK(axis_kind(CoordinateSaid{.standard_name = "ocean_s_coordinate_g1"}) == AxisKind::vertical);
  for (const char* units : {"degrees_north", "degree_E", "degreesN"})
    CHECK_MESSAGE(axis_kind(CoordinateSaid{.units = units}) == AxisKind::horizontal, units);
  for (const char* units : {"degrees", "degrees_C", "m"})
    CHECK_MESSAGE(axis_kind(CoordinateSaid{.units = units}) == AxisKind::unknown, units);
  CHECK(axis_kind(CoordinateSaid{.units = "days since 2000-01-01"}) == AxisKind::time);
  CHECK(axis_kind(CoordinateSaid{.positive = "down"}) == AxisKind::vertical);
  std::vector<NamedAxis> image{{AxisKind::vertical, "height"}, {AxisKind::horizontal, "width"}};
  settle_kinds(image);
  CHECK(image.front().kind == AxisKind::horizontal);
}

TEST_CASE("axes: channels move to the end, for every size of element") {
  const Shape sample{0, {1, 3, 4}, 2, 2};
  const ChannelBox box = channel_box(sample, parse_axes("n y c x"));
  CHECK(box.before == 3);
  CHECK(box.after == 4);
  const auto check = [&]<class Element>(Element) {
    std::vector<Element> stored(48), moved(48);
    for (std::size_t i = 0; i < 48; ++i) stored[i] = static_cast<Element>(i + 1);
    move_channels_last(box, 2, sizeof(Element), reinterpret_cast<const std::byte*>(stored.data()),
                       reinterpret_cast<std::byte*>(moved.data()));
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t y = 0; y < 3; ++y)
        for (std::size_t x = 0; x < 4; ++x)
          for (std::size_t c = 0; c < 2; ++c)
            CHECK(moved[((n * 3 + y) * 4 + x) * 2 + c] == stored[((n * 3 + y) * 2 + c) * 4 + x]);
  };
  check(std::uint8_t{});
  check(std::uint16_t{});
  check(1.0F);
  check(1.0);
}

TEST_CASE("rows: both parts of a split make up all rows, by seed") {
  const RowChoice train{Subset::train, "", 0.25, 3}, validation{Subset::validation, "", 0.25, 3};
  const std::vector<Index> a = choose_rows(train, 40, {}), b = choose_rows(validation, 40, {});
  CHECK(b.size() == 10);
  std::vector<Index> all;
  std::ranges::merge(a, b, std::back_inserter(all));
  std::vector<Index> expected(40);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(all == expected);
  CHECK(choose_rows(validation, 40, {}) == b);
  CHECK(choose_rows({Subset::validation, "", 0.25, 4}, 40, {}) != b);
  CHECK(choose_rows({Subset::validation, "", 0.001, 3}, 40, {}).size() == 1);
  CHECK(choose_rows({Subset::train, "", 0.999, 3}, 40, {}).size() == 1);
  // Most rows stay where they are when the data grow.
  const std::vector<Index> more = choose_rows({Subset::validation, "", 0.25, 3}, 44, {});
  CHECK(std::ranges::count_if(b, [&](Index row) { return std::ranges::binary_search(more, row); }) >= 8);

  const SplitColumn column{"column", false, {"0", "2.5"}, {0, 1, 0, 1, 0}};
  CHECK(choose_rows({Subset::train, "column", 0, 1}, 5, column) == std::vector<Index>{0, 2, 4});
  CHECK(choose_rows({Subset::validation, "column", 0, 1}, 5, column) == std::vector<Index>{1, 3});
  CHECK(choose_rows({}, 3, {}) == std::vector<Index>{0, 1, 2});
}

TEST_CASE("rows: the values of a column say what rows are for, or it is refused") {
  using enum Subset;
  constexpr std::nullopt_t nothing = std::nullopt;
  const auto numbers = [](std::vector<std::string> values) { return SplitColumn{"c", false, std::move(values), {}}; };
  const auto words = [](std::vector<std::string> values) { return SplitColumn{"c", true, std::move(values), {}}; };
  const auto choice = [](std::vector<std::string> validation, std::vector<std::string> train = {}) {
    return RowChoice{Subset::train, "c", 0, 1, std::move(train), std::move(validation)};
  };
  using Roles = std::vector<std::optional<Subset>>;
  CHECK(roles_of(choice({}), numbers({"0", "1"})) == Roles{train, validation});
  CHECK(roles_of(choice({}), numbers({"0"})) == Roles{train});
  CHECK(roles_of(choice({"1"}), numbers({"0", "1", "2"})) == Roles{train, validation, nothing});
  CHECK(roles_of(choice({"1.0"}), numbers({"1", "7"})) == Roles{validation, train});
  CHECK(roles_of(choice({"2"}, {"3", "4"}), numbers({"0", "2", "3", "4"})) == Roles{nothing, validation, train, train});
  CHECK(roles_of(choice({"dev"}), words({"Train", "dev", "test"})) == Roles{train, validation, nothing});
  CHECK(roles_of(choice({"b"}), words({"a", "b"})) == Roles{train, validation});
  const auto refused = [](const RowChoice& c, const SplitColumn& column) {
    return message<DataError>([&] { roles_of(c, column); });
  };
  CHECK(refused(choice({}), numbers({"0", "1", "2"})).find("data.split.validation = [1]") != std::string::npos);
  CHECK(refused(choice({}), words({"train", "val"})).find("data.split.validation = [\"val\"]") != std::string::npos);
  CHECK(refused(choice({"4"}), numbers({"0", "1", "2", "4"})).find("data.split.train = [0, 1, 2]") !=
        std::string::npos);
  CHECK(refused(choice({"b"}), words({"a", "b", "c"})).find("data.split.train = [\"a\", \"c\"]") != std::string::npos);
  CHECK(refused(choice({"x"}), words({"a", "b"})).find("and not x") != std::string::npos);
}

TEST_CASE("rows: samples are runs of rows of files") {
  const auto runs_of = [](const DatasetShape& shape, Range samples) {
    std::string text;
    StoredRows(shape).for_each_run(samples, [&](const RowRun& run) {
      text +=
          std::to_string(run.file) + ":" + std::to_string(run.rows.first) + "+" + std::to_string(run.rows.count) + " ";
    });
    return text;
  };
  DatasetShape all;
  all.samples = 7;
  all.file_samples = {3, 4};
  CHECK(runs_of(all, {0, 7}) == "0:0+3 1:0+4 ");
  CHECK(runs_of(all, {2, 2}) == "0:2+1 1:0+1 ");
  DatasetShape some;
  some.rows = {0, 2, 3, 4, 6};
  some.samples = 5;
  some.file_rows = {3, 4};
  some.file_samples = {2, 3};
  CHECK(runs_of(some, {0, 5}) == "0:0+1 0:2+1 1:0+2 1:3+1 ");
  CHECK(runs_of(some, {1, 2}) == "0:2+1 1:0+1 ");
  CHECK(StoredRows(some).rows_of_file(1) == 4);
}

TEST_CASE("rows: ranges for people") {
  CHECK(ranges_text({}) == "");
  CHECK(ranges_text({3}) == "3");
  CHECK(ranges_text({3, 4, 7, 8, 9}) == "3, 4, 7-9");
}

TEST_CASE("units: there and back, per channel and for all") {
  const std::vector<float> x{0, 10, 3, 40, 8, 90};
  const auto round_trip = [&](const ChannelMap& map) {
    std::vector<float> y = x;
    apply(map, 0, y);
    std::vector<float> parts = x;  // in parts that begin anywhere
    apply(map, 0, Span(parts).first(3));
    apply(map, 3, Span(parts).subspan(3));
    CHECK(parts == y);
    std::vector<float> back = y;
    undo(map, 0, back);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(back[i] == doctest::Approx(x[i]).epsilon(1e-5));
    return y;
  };
  CHECK(round_trip({}) == x);
  CHECK(round_trip({false, {2}, {1}})[4] == 17);
  const std::vector<float> two = round_trip({false, {2, 0.5F}, {1, -1}});
  CHECK(two[2] == 7);
  CHECK(two[3] == 19);
  CHECK(round_trip({true, {}, {}})[1] == doctest::Approx(std::log(11.0)));
  CHECK(round_trip({true, {1, 3}, {0, 0}})[1] == doctest::Approx(3 * std::log(11.0)));
}

TEST_CASE("files: a folder into which this user may not look is named") {
  namespace fs = std::filesystem;
  const test::TemporaryFolder folder;  // for its owner alone
  const std::string what = "this user may not look into the folder " + folder.path() + "; ask its owner for access";
  CHECK(advice_on_access(folder.file("a*.h5")).empty());
  CHECK(no_match_text(folder.file("a*.h5")).ends_with("a*.h5; correct the pattern, or the folder to start from"));
  const bool root = ::geteuid() == 0;  // who may look everywhere
  if (root)
    REQUIRE(::seteuid(65534) == 0);
  else
    fs::permissions(folder.path(), fs::perms::none);
  const std::string of_pattern = no_match_text(folder.file("a*.h5")), of_name = advice_on_access(folder.file("b/a.h5"));
  if (root)
    REQUIRE(::seteuid(0) == 0);
  else
    fs::permissions(folder.path(), fs::perms::owner_all);
  CHECK(of_pattern == "no file matches " + folder.file("a*.h5") + ": " + what);
  CHECK(of_name == what);
}

TEST_CASE("files: ranges of numbers") {
  using Names = std::vector<std::string>;
  CHECK(expand_patterns({"s{08..11}.h5", "t.h5"}) == Names{"s08.h5", "s09.h5", "s10.h5", "s11.h5", "t.h5"});
  CHECK(expand_patterns({"s{8..11}.h5"}) == Names{"s8.h5", "s9.h5", "s10.h5", "s11.h5"});
  CHECK(expand_patterns({"s{08..111}.h5", "s{008..11}.h5"}) == Names{"s{08..111}.h5", "s{008..11}.h5"});  // no numbers
  CHECK(expand_patterns(
            {"s{3..1}.h5", "s{a..b}.h5", "s{1..2", "s{}.h5", "s{1..}", "s{a..bc}.h5", "s{..5}.h5", "s{8..012}.h5"}) ==
        Names{"s{3..1}.h5", "s{a..b}.h5", "s{1..2", "s{}.h5", "s{1..}", "s{a..bc}.h5", "s{..5}.h5", "s{8..012}.h5"});
  CHECK(expand_patterns({"s{000000000000000000..999999999999999999}.h5"}).size() == 1);
  const test::TemporaryFolder folder;
  const std::string there = folder.file("odd{1..3}.h5");
  test::write_bytes(there, "");
  CHECK(expand_patterns({there}) == Names{there});

  Names names{"first.h5"}, more;
  for (const char* folder_name : {"run1", "run2"})
    for (int i = 95; i < 1000; ++i)
      if (i != 500)
        names.push_back(folder_name + std::string("/s") + (i < 100 ? "00" : "0") + std::to_string(i) + "-4.h5");
  for (int i = 0; i < 12; ++i) more.push_back("few" + std::to_string(i) + ".h5");
  CHECK(fold_numbers(names) == Names{"first.h5", "run1/s{0095..0499}-4.h5", "run1/s{0501..0999}-4.h5",
                                     "run2/s{0095..0499}-4.h5", "run2/s{0501..0999}-4.h5"});
  CHECK(fold_numbers(more) == more);
  for (int i = 12; i < 120; ++i) more.push_back("few" + std::to_string(i) + ".h5");
  CHECK(fold_numbers(more) == Names{"few{0..119}.h5"});
  Names padded;
  for (int i = 0; i < 120; ++i) padded.push_back((i < 10 ? "f0" : "f") + std::to_string(i));
  CHECK(fold_numbers(padded) == Names{"f{00..99}", "f{100..119}"});
  CHECK(expand_patterns(fold_numbers(padded)) == padded);
  names.insert(names.end(), more.begin(), more.end());
  names.insert(names.end(), {"s1", "s1", "s2", "9", "10", there, "x{1}a"});
  CHECK(expand_patterns(fold_numbers(names)) == names);
  CHECK(fold_numbers({}).empty());
}

TEST_CASE("files: whether one is there is another question than whether one may look") {
  const test::TemporaryFolder folder;
  CHECK(is_there(folder.file(".")));
  CHECK_FALSE(is_there(folder.file("none")));
  CHECK_THROWS_AS(is_there(folder.file(std::string(5000, 'x'))), DataError);
}

TEST_CASE("files: patterns") {
  const test::TemporaryFolder folder;
  for (const char* name : {"b.h5", "a.h5", "c.txt", "odd[1].h5"}) test::write_bytes(folder.file(name), "");
  const std::string a = folder.file("a.h5"), b = folder.file("b.h5"), odd = folder.file("odd[1].h5");
  CHECK(expand_patterns({folder.file("*.h5")}) == std::vector<std::string>{a, b, odd});
  CHECK(expand_patterns({b, folder.file("?.h5")}) == std::vector<std::string>{b, a});
  CHECK(expand_patterns({a, a}) == std::vector<std::string>{a, a});  // meant, as it is written out
  CHECK(expand_patterns({odd}) == std::vector<std::string>{odd});
  CHECK(expand_patterns({folder.file("*.hdf")}) == std::vector<std::string>{folder.file("*.hdf")});
  CHECK(is_pattern(folder.file("*.hdf")));
  CHECK(expand_patterns({b, folder.file("[ab].h5")}) == std::vector<std::string>{b, a});
  CHECK_FALSE(is_pattern(odd));
}
