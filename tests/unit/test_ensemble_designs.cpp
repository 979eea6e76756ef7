// Designs as an ensemble's file says them, and lists as people's programs write them (src/ensemble).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/errors.hpp"
#include "src/ensemble/spec_and_design.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::contains;

namespace {

/// Designs of a folder that vanishes with the test.
class Designs {
 public:
  std::vector<Point> points(const std::string& text) const {
    test::write_bytes(scratch_.file("spec.toml"), "ensemble.folder = \"ens\"\n" + text);
    EnsembleSpec spec = read_ensemble(scratch_.file("spec.toml"), {});
    return make_design(spec);
  }
  std::vector<Point> list(const std::string& bytes, const std::string& simulator = "heat") const {
    test::write_bytes(scratch_.file("points.csv"), bytes);
    return points("simulate.simulator = \"" + simulator + "\"\ndesign = { kind = \"list\", file = \"" +
                  scratch_.file("points.csv") + "\" }");
  }
  /// Why the design is refused.
  template <class Make>
  std::string error(Make&& make) const {
    try {
      make();
    } catch (const Error& refused) {
      return refused.what();
    }
    return "not refused";
  }

 private:
  test::TemporaryFolder scratch_;
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

}  // namespace

TEST_CASE("ensemble: lists as programs write them") {
  const Designs designs;
  const std::string plain = "velocity_x,velocity_y\n0.1,-0.2\n-0.05,1e-2\n", mark = "\xEF\xBB\xBF";
  const std::string windows = replaced(plain, "\n", "\r\n");
  for (const std::string& written :
       {plain, mark + plain, windows, mark + windows, replaced(plain, "\n", "\r"), plain.substr(0, plain.size() - 1),
        replaced(plain, ",", " ,\t "), " " + replaced(plain, "\n", " \n "), "\n\n" + replaced(plain, "\n", "\n\n"),
        std::string("\"velocity_x\",\"velocity_y\"\r\n\"0.1\",\" -0.2\"\n-0.05,\"1e-2\" \n"), replaced(plain, ",", ";"),
        replaced(plain, ",", "\t"), replaced(plain, "0.1", "+0.1")}) {
    CAPTURE(written);
    CHECK(designs.list(written) == std::vector<Point>{{0.1, -0.2}, {-0.05, 0.01}});
  }
}

TEST_CASE("ensemble: lists that cannot be read are refused with their line") {
  const Designs designs;
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "points.csv: is empty"},
      {"velocity_x\n", "points.csv: has no points"},
      {"velocity_x,velocity_x\n1,1\n", "points.csv: the key 'velocity_x' is there twice"},
      {"velocity_x,\n0,1\n", "points.csv:1: a column has no name"},
      {"velocity_x,velocity_y\n0,0.1\n\n0\n", "points.csv:4: 1 values, and the header names 2 keys"},
      {"velocity_x,velocity_y\n0,\n", "points.csv:2: 'velocity_y' has no value"},
      {"velocity_x\r\n0\r\nnan\r\n", "points.csv:3: 'velocity_x' is nan; give a finite number"},
      {"velocity_x\n0\n1e999\n", "points.csv:3: '1e999' is no number"},
      {"velocity_x;velocity_y\n0;0,5\n", "points.csv:2: '0,5' is no number"},
      {"velocity_x\n\"0\n", "points.csv:2: a quote is not closed"},
      {"velocity_x\n\"0\"1\n", "points.csv:2: something follows a closing quote"},
      {"\xFF\xFEv\0", "points.csv: is text in UTF-16; save it in UTF-8"},
      {"size\n16\n", "'size' is the same for all members"},
      {"velocity_x\n7\n", "'velocity_x' is from 7 to 7; the simulator heat takes -1 to 1"},
      {"number\n1\n2.5\n3\n", "'number' of point 1 is 2.5; it takes whole numbers"}};
  for (const auto& [bytes, message] : cases) {
    CAPTURE(bytes);
    const std::string error = designs.error([&, &list = bytes] { designs.list(list); });
    CAPTURE(error);
    CHECK(contains(error, message));
  }
}

TEST_CASE("ensemble: a cell of CSV comes back as it was") {
  CHECK(csv_cell("cosine") == "cosine");
  CHECK(csv_cell("[2, 2]") == "\"[2, 2]\"");
  CHECK(csv_cell("say \"no\"") == "\"say \"\"no\"\"\"");
}

TEST_CASE("ensemble: ranges of whole numbers, also even in their logarithm") {
  const Designs designs;
  const auto fractals = [&](const std::string& kind, int members, const std::string& values) {
    std::vector<double> drawn;
    const std::string noise = kind == "grid" ? "{ values = [0] }" : "[0, 1]";
    for (const Point& point : designs.points("simulate.simulator = \"volumes\"\ndesign = { kind = \"" + kind +
                                             "\", members = " + std::to_string(members) +
                                             ", keys.fractals = " + values + ", keys.noise = " + noise + " }"))
      drawn.push_back(point[0]);
    std::ranges::sort(drawn);
    return drawn;
  };
  const std::vector<double> drawn = fractals("latin-hypercube", 64, "{ from = 1, to = 64, scale = \"log\" }");
  for (const double x : drawn) CHECK(x == std::round(x));
  CHECK(drawn.front() == 1);
  CHECK(std::ranges::count_if(drawn, [](double x) { return x <= 8; }) ==
        doctest::Approx(64 * std::log(9) / std::log(65)).epsilon(0.03));
  const std::vector<double> even = fractals("latin-hypercube", 40, "[1, 4]");
  for (const double x : {1, 2, 3, 4}) CHECK(std::ranges::count(even, x) == 10);
  CHECK(fractals("grid", 0, "{ from = 1, to = 64, count = 4, scale = \"log\" }") == std::vector<double>{1, 4, 16, 64});
  const std::vector<std::tuple<std::string, std::string, std::string>> refused{
      {"sobol", "[0, 4]", "'fractals' is from 0 to 4; the simulator volumes takes 1 to 64"},
      {"sobol", "[1.5, 4]", "'fractals' takes whole numbers, not 1.5"},
      {"sobol", "{ values = [1, 2.5] }", "'fractals' takes whole numbers, not 2.5"},
      {"sobol", "{ values = [] }", "design.keys.fractals.values"},
      {"sobol", "{ values = [1, 2], to = 3 }", "design.keys.fractals has values; leave out from, to, scale and count"},
      {"grid", "{ from = 1, to = 3, count = 5 }", "from 1 to 3 there are fewer than count = 5"}};
  for (const auto& [kind, values, message] : refused) {
    const std::string error =
        designs.error([&, &k = kind, &v = values] { fractals(k, 0 + (k == "sobol" ? 4 : 0), v); });
    CAPTURE(error);
    CHECK(contains(error, message));
  }
}

TEST_CASE("ensemble: a design of fewer values than members is refused") {
  const Designs designs;
  const auto six = [&](const std::string& kind, int members) {
    return designs.points("simulate.simulator = \"heat\"\ndesign = { kind = \"" + kind +
                          "\", members = " + std::to_string(members) +
                          ", keys.velocity_x = { values = [0, 0.1] }, keys.velocity_y = { values = [0, 0.1, 0.2] } }");
  };
  for (const char* kind : {"latin-hypercube", "sobol", "grid"}) {
    CHECK(six(kind, 6).size() == 6);
    const std::string error = designs.error([&] { six(kind, 7); });
    CHECK(contains(error, "2 x 3 has 6 values, fewer than design.members = 7"));
  }
  CHECK(contains(designs.error([&] {
    designs.points(
        "simulate.simulator = \"volumes\"\ndesign = { kind = \"sobol\", members = 5, keys.fractals = [1, 4] }");
  }),
                 "a design of 4 has 4 values, fewer than design.members = 5"));
}

TEST_CASE("ensemble: a design of too many members, or of a key that is set, is refused") {
  const Designs designs;
  const std::string heat = "simulate = { simulator = \"heat\", velocity_x = 0.1 }\n";
  CHECK(contains(designs.error([&] {
    designs.points(heat + "design = { kind = \"sobol\", members = 20000000, keys.velocity_y = [0, 1] }");
  }),
                 "at most 10000000"));
  CHECK(contains(designs.error([&] {
    designs.points(heat +
                   "design = { kind = \"grid\", keys.velocity_y = { from = 0, to = 1, count = 10000 }, "
                   "keys.log10_diffusivity = { from = -4, to = -3, count = 10000 } }");
  }),
                 "the design's grid of 10000 x 10000 has 1e+08 points; 1e+07 are the most of an ensemble"));
  CHECK(contains(designs.error([&] {
    designs.points(heat + "design = { kind = \"sobol\", members = 2, keys.velocity_x = [0, 1] }");
  }),
                 "'velocity_x' is set in [simulate], too; leave it out there"));
}
