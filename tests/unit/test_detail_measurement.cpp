// Whether a measurement of training samples tells labels that depend on the finest detail from others.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "src/inspection/detail_measurement.hpp"
#include "src/method/auto_schedule_and_tune.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::message;
using test::NewDataset;
using test::TemporaryFolder;

namespace {

using Shapes = std::vector<std::int64_t>;

/// Numbers of a made-up sample: blocks of 2 along every axis are constant but for a detail along the last axis.
struct MadeSample {
  double mean, coarse, fine;  ///< their level; deviation of the blocks; amplitude of the detail
};

std::vector<MadeSample> made(Index samples) {
  Rng random(7);
  std::vector<MadeSample> all;
  for (Index i = 0; i < samples; ++i)
    all.push_back({random.uniform(-1, 1), std::exp(random.uniform(-1, 1)), std::exp(random.uniform(-1, 1))});
  return all;
}

/// Samples without channels, of sizes along their axes.
std::vector<float> samples_of(const std::vector<MadeSample>& all, const Shapes& size) {
  std::vector<float> values;
  const std::int64_t last = size.back(), before = size.size() > 1 ? size[size.size() - 2] : 1;
  std::int64_t positions = 1;
  for (const std::int64_t one : size) positions *= one;
  for (std::size_t s = 0; s < all.size(); ++s)
    for (std::int64_t p = 0; p < positions; ++p) {
      const std::int64_t x = p % last, y = p / last % before, z = p / last / before;
      const auto block = static_cast<std::uint64_t>(((z / 2) * before + y / 2) * last + x / 2);
      const double noise = Rng(mix(s, block, 1)).normal();
      values.push_back(static_cast<float>(all[s].mean + all[s].coarse * noise + (x % 2 == 0 ? 1 : -1) * all[s].fine));
    }
  return values;
}

/// A file "a.h5" with samples "x" and labels "y", and a configuration for it.
struct MadeFile {
  TemporaryFolder folder;
  Comm comm = Comm::self();
  std::string axes;
  int outputs = 1;

  explicit MadeFile(const Shapes& size) : axes(size.size() == 1 ? "n x" : size.size() == 2 ? "n y x" : "n z y x") {}
  std::string file(const std::string& name = "a.h5") const { return folder.file(name); }
  void samples(const std::vector<MadeSample>& all, const Shapes& size) {
    Shapes shape{std::ssize(all)};
    shape.insert(shape.end(), size.begin(), size.end());
    test::write_floats(file(), "x", shape, samples_of(all, size));
  }
  template <class Label>
  void labels(const std::vector<MadeSample>& all, const Label& label) {
    std::vector<float> values;
    for (const MadeSample& one : all) values.push_back(static_cast<float>(label(one)));
    test::write_floats(file(), "y", {std::ssize(all)}, values);
  }
  Config config(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> overrides{"data.files=[\"" + file() + "\"]", "data.axes=\"" + axes + "\""};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return parse_config(
        "[data]\nfiles = [\"a.h5\"]\ntrain = { samples = \"x\", labels = \"y\" }\n"
        "validation = { samples = \"x\", labels = \"y\" }\n[model]\nlayers = [{ type = \"flatten\" }, "
        "{ type = \"dense\", units = " +
            std::to_string(outputs) + " }]\n[method]\nname = \"auto\"\n",
        "c.toml", overrides);
  }
  DetailMeasurement look(const Config& of) { return measure_detail(of, inspect_dataset(of.data.train, comm), comm); }
  DetailMeasurement look(const std::vector<std::string>& more = {}) { return look(config(more)); }
};

double finest(const MadeSample& one) { return std::log(one.fine); }

}  // namespace

TEST_CASE("haar energies: of each orientation, then the variance and mean of what is left") {
  const auto measured = [](const Shape& sample, const std::vector<float>& x, bool log1p = false) {
    const HaarEnergies energies(sample, log1p);
    std::vector<double> numbers(static_cast<std::size_t>(energies.numbers()), -1);
    energies.measure(x, numbers);
    return numbers;
  };
  const Shape line{.n = 0, .spatial = {1, 1, 4}, .channels = 1, .axes = 1};
  CHECK(measured(line, {0, 2, 4, 8}) == std::vector<double>{2.5, 6.25, 3.5});
  Shape odd = line;
  odd.spatial[2] = 5;
  CHECK(measured(odd, {0, 2, 4, 8, 99}) == std::vector<double>{2.5, 6.25, 3.5});
  Shape two = line;
  two.channels = 2;
  CHECK(measured(two, {0, 1, 2, 1, 4, 1, 8, 1}) == std::vector<double>{2.5, 0, 6.25, 0, 3.5, 1});

  const auto e = static_cast<float>(std::numbers::e - 1);  // averages are of x, and details of log(1 + x)
  const std::vector<double> logs = measured(line, {0, e, 0, e}, true);
  CHECK(logs[0] == doctest::Approx(0.25));
  CHECK(logs[1] == 0);
  CHECK(logs[2] == doctest::Approx(std::log1p((std::numbers::e - 1) / 2)));

  // Signs that change from position to position along some axes: that orientation has all the energy.
  for (int axes = 1; axes <= 3; ++axes)
    for (unsigned along = 1; along < 1U << static_cast<unsigned>(axes); ++along) {
      Shape sample{.n = 0, .spatial = {1, 1, 1}, .channels = 1, .axes = axes};
      for (std::size_t a = 3 - static_cast<std::size_t>(axes); a < 3; ++a) sample.spatial[a] = 4;
      std::vector<float> x;
      for (Index d = 0; d < sample.spatial[0]; ++d)
        for (Index h = 0; h < sample.spatial[1]; ++h)
          for (Index w = 0; w < sample.spatial[2]; ++w) {
            const Index odd_ones = (along & 1U) * w + (along >> 1U & 1U) * h + (along >> 2U & 1U) * d;
            x.push_back(odd_ones % 2 == 0 ? 3 : -3);
          }
      std::vector<double> expected(static_cast<std::size_t>((1 << axes) + 1), 0);
      expected[along - 1] = 9;
      CAPTURE(axes);
      CAPTURE(along);
      CHECK(measured(sample, x) == expected);
    }
  CHECK(HaarEnergies({.n = 0, .spatial = {1, 64, 64}, .channels = 3, .axes = 2}, false).levels() == 4);
  CHECK(HaarEnergies({.n = 0, .spatial = {1, 64, 3}, .channels = 3, .axes = 2}, false).levels() == 0);
}

TEST_CASE("linear fit: what is unexplained in rows that were not fitted to") {
  Rng random(3);
  const auto table = [&](Index rows, Index columns) {
    Table made{rows, columns, {}};
    for (Index i = 0; i < rows * columns; ++i) made.values.push_back(random.normal());
    return made;
  };
  Table x = table(200, 4), y = table(200, 2);
  CHECK(unexplained_share(x, y) > 0.95);
  for (Index row = 0; row < x.rows; ++row) {
    x.at(row, 1) = 5;  // a column that tells nothing
    x.at(row, 3) *= 1e6;
    y.at(row, 0) = 100 + 2 * x.at(row, 0) - 1e-6 * x.at(row, 3);
    y.at(row, 1) = 0;
  }
  CHECK(unexplained_share(x, y) < 1e-6);
  // A mean of two independent columns, half of it known. In-sample it would be far less: there are as many columns.
  Table many = table(200, 190), half{200, 1, {}};
  for (Index row = 0; row < many.rows; ++row) half.values.push_back(many.at(row, 0) + random.normal());
  CHECK(unexplained_share(many, half) > 0.5);
  CHECK(unexplained_share(many, half) < 1);
}

TEST_CASE("detail measurement: labels of the finest detail are told from others, along any number of axes") {
  for (const Shapes& size : {Shapes{64}, Shapes{16, 16}, Shapes{8, 8, 8}}) {
    CAPTURE(size.size());
    const std::vector<MadeSample> all = made(300);
    const auto look = [&](const auto& label) {
      MadeFile data(size);
      data.samples(all, size);
      data.labels(all, label);
      return data.look();
    };
    const DetailMeasurement fine = look(finest);
    CHECK(fine.known());
    CHECK(fine.samples == 300);
    CHECK(fine.without_finest > 0.9);
    CHECK(fine.with_finest < 0.1);
    CHECK(fine.loses());
    const DetailMeasurement mean = look([](const MadeSample& one) { return one.mean; });
    CHECK(mean.known());
    CHECK(mean.with_finest < 0.6);
    CHECK_FALSE(mean.loses());
    const DetailMeasurement coarse = look([](const MadeSample& one) { return std::log(one.coarse); });
    CHECK(coarse.without_finest < 0.2);
    CHECK_FALSE(coarse.loses());
  }
}

TEST_CASE("detail measurement: detail along an axis that is not averaged is not lost") {
  const std::vector<MadeSample> all = made(300);
  MadeFile data({8, 8});
  data.samples(all, {8, 8});
  data.labels(all, finest);  // of detail along the last axis
  const Config config = data.config();
  const DatasetShape train = inspect_dataset(config.data.train, data.comm);
  CHECK(measure_detail(config, train, data.comm, {1, 2, 2}).loses());
  CHECK(measure_detail(config, train, data.comm, {1, 1, 2}).loses());
  const DetailMeasurement kept = measure_detail(config, train, data.comm, {1, 2, 1});
  CHECK_FALSE(kept.loses());
  CHECK(kept.without_finest < 0.1);
}

TEST_CASE("detail measurement: shares that both are all but nothing do not count") {
  CHECK(DetailMeasurement{.samples = 512, .without_finest = 0.8, .with_finest = 0.59}.loses());
  CHECK_FALSE(DetailMeasurement{.samples = 512, .without_finest = 0.8, .with_finest = 0.61}.loses());
  CHECK_FALSE(DetailMeasurement{.samples = 512, .without_finest = 1e-5, .with_finest = 1e-7}.loses());
  CHECK_FALSE(DetailMeasurement{.why_not = "few", .samples = 512, .without_finest = 0.8, .with_finest = 0.1}.loses());
}

TEST_CASE("detail measurement: classes, and where nothing can be told") {
  const Shapes size{64};
  const std::vector<MadeSample> all = made(400), few = made(199);
  MadeFile classes(size);
  classes.outputs = 3;
  classes.samples(all, size);
  classes.labels(all, [](const MadeSample& one) { return std::floor(1.5 * (1 + finest(one))); });
  const DetailMeasurement look = classes.look({"training.loss=cross_entropy"});
  CHECK(look.loses());
  CHECK(look.without_finest > 0.9);
  CHECK(look.with_finest < 0.7);
  // Labels that are not known are left out.
  const DetailMeasurement two = classes.look({"training.loss=cross_entropy", "training.ignore=1"});
  CHECK(two.known());
  CHECK(two.samples < 320);
  CHECK(two.with_finest < 0.4);

  const auto why = [&](const std::vector<MadeSample>& of, const auto& label) {
    MadeFile data(size);
    data.samples(of, size);
    data.labels(of, label);
    const DetailMeasurement found = data.look();
    CHECK_FALSE(found.known());
    CHECK_FALSE(found.loses());
    return found.why_not;
  };
  CHECK(why(few, finest).find("199 training samples with labels are too few") != std::string::npos);
  CHECK(why(all, [](const MadeSample&) { return 5; }).find("all have the same labels") != std::string::npos);

  MadeFile positions(size);
  positions.samples(all, size);
  test::write_floats(positions.file(), "y", {400, 64, 1}, samples_of(all, size));
  CHECK(positions.look().why_not.find("labels have positions") != std::string::npos);

  MadeFile flat({3});
  flat.samples(all, {3});
  flat.labels(all, finest);
  CHECK(flat.look().why_not.find("fewer than four positions") != std::string::npos);
}

TEST_CASE("detail measurement: in the units of data.normalise") {
  const Shapes size{64};
  const std::vector<MadeSample> all = made(300);
  std::vector<float> values = samples_of(all, size);
  MadeFile data(size);
  for (float& value : values) value = std::expm1(value);
  test::write_floats(data.file(), "x", {300, 64}, values);
  data.labels(all, finest);
  CHECK(data.look({"data.normalise.samples=log1p"}).with_finest < 0.5 * data.look().with_finest);

  // Of two labels the one in large units is all that the loss sees, unless each is divided by its deviation.
  std::vector<float> two;
  for (const MadeSample& one : all) {
    two.push_back(static_cast<float>(finest(one)));
    two.push_back(static_cast<float>(1000 * std::log(one.coarse)));
  }
  MadeFile both(size);
  both.outputs = 2;
  both.samples(all, size);
  test::write_floats(both.file(), "y", {300, 2}, two);
  CHECK_FALSE(both.look().loses());
  CHECK(both.look({"data.normalise.labels=mean_std"}).loses());
  for (const char* of : {"samples", "labels"})
    CHECK(message<DataError>([&] { both.look({"data.normalise." + std::string(of) + "=log1p"}); }).find("row ") !=
          std::string::npos);
}

TEST_CASE("detail measurement: of a long sample its middle alone") {
  constexpr Index kSamples = 240, kLength = 40000, kFirst = 3616;  // (40000 - 32768) / 2
  const std::vector<MadeSample> all = made(kSamples);
  std::vector<std::uint8_t> values;
  for (std::size_t s = 0; s < all.size(); ++s)
    for (Index x = 0; x < kLength; ++x) {
      const bool inside = x >= kFirst && x < kFirst + 32768;
      const double detail = inside ? 20 * all[s].fine : 100.0 * Rng(mix(s)).uniform();
      values.push_back(static_cast<std::uint8_t>(128 + (x % 2 == 0 ? 1 : -1) * std::lround(detail)));
    }
  MadeFile data({kLength});
  NewDataset{data.file(), "x", {kSamples, kLength}, H5T_STD_U8LE, H5T_NATIVE_UINT8}.write(values.data());
  data.labels(all, finest);
  const DetailMeasurement look = data.look();
  CHECK(look.with_finest < 0.02);
  CHECK(look.loses());
}

TEST_CASE("detail measurement: of planes their middle alone, channels first") {
  constexpr Index kSamples = 200, kSide = 200, kFirst = 0, kBox = 176;  // (200 - 176) / 2, down to a multiple of 16
  const std::vector<MadeSample> all = made(kSamples);
  std::vector<std::uint8_t> values;
  for (std::size_t s = 0; s < all.size(); ++s)
    for (Index c = 0; c < 2; ++c)
      for (Index y = 0; y < kSide; ++y)
        for (Index x = 0; x < kSide; ++x) {
          const bool inside = x >= kFirst && x < kFirst + kBox && y >= kFirst && y < kFirst + kBox;
          const double detail = inside && c == 1 ? 20 * all[s].fine : 100.0 * Rng(mix(s)).uniform();
          values.push_back(static_cast<std::uint8_t>(128 + (x % 2 == 0 ? 1 : -1) * std::lround(detail)));
        }
  MadeFile data({kSide, kSide});
  data.axes = "n c y x";
  NewDataset{data.file(), "x", {kSamples, 2, kSide, kSide}, H5T_STD_U8LE, H5T_NATIVE_UINT8}.write(values.data());
  data.labels(all, finest);
  const DetailMeasurement look = data.look();
  CHECK(look.with_finest < 0.02);
  CHECK(look.loses());
}

TEST_CASE("detail measurement: the same of several files, and whether rows that are left out are known or not") {
  const Shapes size{64};
  const std::vector<MadeSample> all = made(700);  // more than are looked at
  MadeFile data(size);
  data.samples(all, size);
  data.labels(all, finest);
  const DetailMeasurement one = data.look();
  CHECK(one.samples == 512);

  std::vector<float> x = samples_of(all, size), y;
  for (const MadeSample& of : all) y.push_back(static_cast<float>(finest(of)));
  const auto write_parts = [&](const std::string& a, const std::string& b) {
    const auto part = [&](const std::string& name, std::ptrdiff_t first, std::ptrdiff_t rows) {
      const std::vector<float> samples(x.begin() + 64 * first, x.begin() + 64 * (first + rows));
      test::write_floats(data.file(name), "x", {rows, 64}, samples);
      test::write_floats(data.file(name), "y", {rows}, {y.begin() + first, y.begin() + first + rows});
    };
    part(a, 0, 333);
    part(b, 333, 367);
    return "data.files=[\"" + data.file(a) + "\", \"" + data.file(b) + "\"]";
  };
  CHECK(data.look({write_parts("b.h5", "c.h5")}) == one);

  for (std::size_t i = 0; i < y.size(); i += 2) x[64 * i + 5] = std::numeric_limits<float>::quiet_NaN();
  const std::string bad = write_parts("d.h5", "e.h5");
  CHECK(message<DataError>([&] { data.look({bad}); }).find("NaN") != std::string::npos);
  const Config skip = data.config({bad, "data.not_finite=skip"});
  Config headers = skip;
  headers.data.train.not_finite = NotFiniteRule::refuse;
  const DetailMeasurement known = data.look(skip);
  const DetailMeasurement unknown = measure_detail(skip, inspect_dataset(headers.data.train, data.comm), data.comm);
  CHECK(known == unknown);
  CHECK(known.samples > 200);
  CHECK(known.samples < 300);
}

TEST_CASE("auto: the baseline where averages lose what the labels depend on, unless that is to be ignored") {
  const Shapes size{64};
  const std::vector<MadeSample> all = made(300);
  MadeFile data(size);
  data.samples(all, size);
  data.labels(all, finest);
  const auto choose = [&](const std::vector<std::string>& more = {}) {
    Config config = data.config(more);
    resolve_axes(config.model.layers, 1);
    return choose_schedule(config, inspect_dataset(config.data.train, data.comm), RunSize{300, 300}, data.comm);
  };
  const AutoSchedule no = choose();
  CHECK(no.config.method.name == MethodName::baseline);
  CHECK(no.training_cost == no.baseline_training_cost);
  REQUIRE(no.detail);
  CHECK(no.detail->loses());
  REQUIRE(no.reasons.size() == 3);
  CHECK(no.reasons[1].starts_with("the labels depend on detail that averages of 2 lose: a linear fit on 300 training"));
  CHECK(no.reasons[2] == "so the plan is the baseline");
  const AutoSchedule yes = choose({"method.detail=ignore"});
  CHECK(yes.config.method.name == MethodName::mrmf);
  CHECK_FALSE(yes.detail);
  CHECK(yes.reasons.back().find("method.detail = \"ignore\"") != std::string::npos);
  // Nothing is looked at where nothing would be saved: the samples could not even be read.
  Config few = data.config({"training.epochs=1"});
  resolve_axes(few.model.layers, 1);
  const DatasetShape shape = inspect_dataset(few.data.train, data.comm);
  std::filesystem::remove(data.file());
  CHECK(choose_schedule(few, shape, RunSize{300, 300}, data.comm).reasons.size() == 2);
}
