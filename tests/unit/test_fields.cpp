// Fields on a plane: random fields, heat against its equation, stripes and what averages leave of them, the file.
#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <set>

#include "io/hdf5/file.hpp"
#include "kernels/errors.hpp"
#include "src/simulators/fields/fields.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/read_floats.hpp"

using namespace mrmf;
using namespace mrmf::fields;
using doctest::Approx;

namespace {

constexpr double kTau = 2 * std::numbers::pi;

// One channel's mode at these frequencies: the mean over pixels of value exp(-ikx).
std::complex<double> mode_of(std::span<const float> image, int n, std::size_t channels, std::size_t channel, int kx,
                             int ky) {
  std::complex<double> sum = 0;
  std::size_t p = channel;
  for (int x = 0; x < n; ++x)
    for (int y = 0; y < n; ++y, p += channels)
      sum += static_cast<double>(image[p]) * std::polar(1.0, -kTau * (kx * x + ky * y) / n);
  return sum / static_cast<double>(n * n);
}

double variance(const RealGrid& field) {
  double sum = 0;
  for (const float value : field) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum / static_cast<double>(field.size());
}

struct Sample {
  std::vector<float> image;
  fields::Labels labels;
};

Sample field_sample(const FieldProblem& problem, int n, Index number, std::uint64_t seed = 5) {
  PlaneMemory memory(n);
  Sample sample{std::vector<float>(plane_points(n) * static_cast<std::size_t>(problem.channels())), {}};
  sample.labels = problem.make(sample_key(seed, number), memory, sample.image);
  return sample;
}

FieldsSimulation small_fields(FieldKind kind, const std::string& file) {
  FieldsSimulation s;
  s.file = file;
  s.kind = kind;
  s.samples = 30;
  s.size = 16;
  s.seed = 4;
  return s;
}

}  // namespace

TEST_CASE("fields: the transform's sums are those of its definition") {
  constexpr int n = 16;
  ModeGrid drawn(plane_modes(n));
  PowerLaw(n, 2).draw(3, drawn);
  drawn[0] = 0.25F;
  ModeGrid modes = drawn;
  RealGrid field(plane_points(n));
  PlaneFft(n).to_field(modes, field);
  for_each_mode(n, [&](std::size_t index, int x, int y) {
    CHECK(std::abs(mode_of(field, n, 1, 0, x, y) - std::complex<double>(drawn[index])) < 1e-7);
  });
}

TEST_CASE("fields: random fields have mean 0, variance 1 and the power law's slope") {
  constexpr int n = 32, kFields = 400;
  constexpr double kSlope = 3;
  const PowerLaw law(n, kSlope);
  const PlaneFft fft(n);
  ModeGrid modes(plane_modes(n));
  RealGrid field(plane_points(n));
  double all = 0, low = 0, high = 0;
  for (std::uint64_t key = 0; key < kFields; ++key) {
    law.draw(key, modes);
    CHECK(modes[0] == std::complex<float>(0));
    low += std::norm(std::complex<double>(modes[2])) / kFields;    // (0, 2)
    high += std::norm(std::complex<double>(modes[10])) / kFields;  // (0, 10)
    fft.to_field(modes, field);
    all += variance(field) / kFields;
  }
  // A power is exponentially distributed, so a mean has standard error 1 / sqrt(400) of it; bounds are four. Of the
  // variance, most is in eight modes.
  CHECK(all == Approx(1).epsilon(0.1));
  CHECK(low / high * std::pow(2.0 / 10, kSlope) == Approx(1).epsilon(0.28));
  law.draw(1, modes);
  ModeGrid other(plane_modes(n));
  law.draw(2, other);
  CHECK(modes != other);
}

TEST_CASE("fields: waves fade and drift as the equation says, and the mean stays") {
  constexpr int n = 32;
  const HeatFlow flow{2e-3, 0.07, -0.04};
  struct Wave {
    int x, y;
    float amplitude;
  };
  const std::vector<Wave> waves{{1, 0, 1.0F}, {-2, 3, 0.7F}, {5, 2, 0.4F}};
  ModeGrid start(plane_modes(n)), modes(plane_modes(n));
  start[0] = 2.5F;
  for (const Wave& w : waves)  // a cosine is half of this mode and half of its opposite, which y = 0 stores too
    for_each_mode(n, [&](std::size_t index, int x, int y) {
      if ((x == w.x && y == w.y) || (y == 0 && w.y == 0 && x == -w.x)) start[index] = w.amplitude / 2;
    });
  const PlaneFft fft(n);
  RealGrid field(plane_points(n));
  for (const double time : {0.0, 0.5, 1.0}) {
    evolve(n, flow, time, start, modes);
    fft.to_field(modes, field);
    double mean = 0, worst = 0;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        double exact = 2.5;
        for (const Wave& w : waves) {
          const double fading = std::exp(-kTau * kTau * (w.x * w.x + w.y * w.y) * flow.diffusivity * time);
          const double x = static_cast<double>(i) / n - flow.velocity_x * time;
          const double y = static_cast<double>(j) / n - flow.velocity_y * time;
          exact += static_cast<double>(w.amplitude) * fading * std::cos(kTau * (w.x * x + w.y * y));
        }
        const auto value = static_cast<double>(field[static_cast<std::size_t>(i * n + j)]);
        worst = std::max(worst, std::abs(value - exact));
        mean += value / (n * n);
      }
    CHECK(worst < 2e-6);  // float32 sums of a few waves of order 1
    CHECK(mean == Approx(2.5).epsilon(1e-6));
  }
}

TEST_CASE("fields: heat solves its equation, by finite differences") {
  constexpr int n = 64;
  constexpr double D = 1e-3, vx = 0.09, vy = -0.05, t = 0.4, dt = 0.01, h = 1.0 / n;
  ModeGrid start(plane_modes(n)), modes(plane_modes(n));
  PowerLaw(n, 3).draw(8, start);
  for_each_mode(n, [&](std::size_t index, int x, int y) {
    if (x * x + y * y > 9) start[index] = 0;  // waves of 21 pixels and more, which differences resolve
  });
  const PlaneFft fft(n);
  std::array<RealGrid, 3> u;  // before, at and after t
  for (int i = 0; i < 3; ++i) {
    RealGrid& field = u[static_cast<std::size_t>(i)];
    field.resize(plane_points(n));
    evolve(n, {D, vx, vy}, t + (i - 1) * dt, start, modes);
    fft.to_field(modes, field);
  }
  const auto at = [&](int x, int y) {
    return static_cast<double>(u[1][static_cast<std::size_t>((x + n) % n * n + (y + n) % n)]);
  };
  double error = 0, size = 0;
  for (int x = 0; x < n; ++x)
    for (int y = 0; y < n; ++y) {
      const auto p = static_cast<std::size_t>(x * n + y);
      const double change = static_cast<double>(u[2][p] - u[0][p]) / (2 * dt);
      const double laplace = (at(x + 1, y) + at(x - 1, y) + at(x, y + 1) + at(x, y - 1) - 4 * at(x, y)) / (h * h);
      const double drift = vx * (at(x + 1, y) - at(x - 1, y)) / (2 * h) + vy * (at(x, y + 1) - at(x, y - 1)) / (2 * h);
      error += std::pow(change - (D * laplace - drift), 2);
      size += change * change;
    }
  CHECK(std::sqrt(error / size) < 0.015);  // differences of waves of 21 pixels: (kh)^2 / 6
}

TEST_CASE("fields: the frames of heat tell its labels") {
  constexpr int n = 64, kCount = 20;
  const Heat heat(n);
  REQUIRE(heat.channels() == 3);
  const auto parameters = heat.parameters();
  for (Index number = 0; number < kCount; ++number) {
    const Sample s = field_sample(heat, n, number);
    const double diffusivity = std::pow(10, parameters[0].value(s.labels[0]));
    for (const bool along_x : {true, false}) {
      const int kx = along_x ? 1 : 0, ky = along_x ? 0 : 1;
      const double v = along_x ? parameters[1].value(s.labels[1]) : parameters[2].value(s.labels[2]);
      const std::complex<double> first = mode_of(s.image, n, 3, 0, kx, ky);
      for (const std::size_t channel : {1U, 2U}) {
        const double time = 0.5 * static_cast<double>(channel);
        const auto expected = first * std::polar(std::exp(-kTau * kTau * diffusivity * time), -kTau * v * time);
        // Noise of 0.05 a pixel is 8e-4 in a mode; the mode itself has 0.3 or so.
        CHECK(std::abs(mode_of(s.image, n, 3, channel, kx, ky) - expected) < 5e-3);
      }
    }
  }
}

TEST_CASE("fields: the strongest wave of a few pixels has the stripes' wavelength and orientation") {
  constexpr int n = 64, kCount = 12;
  const Texture texture(n);
  for (Index number = 0; number < kCount; ++number) {
    const Sample s = field_sample(texture, n, number);
    const double k = n / texture.parameters()[0].value(s.labels[0]);
    const double angle = 0.5 * std::atan2(static_cast<double>(s.labels[2]), static_cast<double>(s.labels[1]));
    CHECK(std::hypot(s.labels[1], s.labels[2]) == Approx(1));
    double strongest = 0, apart = 0;
    for_each_mode(n, [&](std::size_t, int x, int y) {
      if (std::hypot(x, y) < n / 3.6) return;
      const double power = std::norm(mode_of(s.image, n, 1, 0, x, y));
      if (power <= strongest) return;
      strongest = power;
      const double dx = k * std::cos(angle), dy = k * std::sin(angle);
      apart = std::min(std::hypot(x - dx, y - dy), std::hypot(x + dx, y + dy));
    });
    CHECK(apart < 0.75);  // the next mode of the grid is at most half a diagonal away
  }
}

TEST_CASE("fields: averages of 2 x 2 pixels keep less than half of the stripes' contrast") {
  constexpr int n = 16;
  double sum = 0, least = 1, most = 0;
  int count = 0;
  for (double wavelength = 2.2; wavelength < 3.41; wavelength += 0.1)
    for (double turn = 0; turn < 0.99; turn += 0.05, ++count) {
      Stripes stripes{wavelength, turn * std::numbers::pi, 0.3, 1};
      const double kept = stripes_kept(stripes);
      std::array<RealGrid, 2> pair;  // a quarter of a wave apart: the sum of their squares is the contrast's everywhere
      for (RealGrid& field : pair) {
        field.assign(plane_points(n), 0);
        add_stripes(n, stripes, field);
        stripes.phase += std::numbers::pi / 2;
      }
      double worst = 0;
      for (std::size_t x = 0; x < n; x += 2)
        for (std::size_t y = 0; y < n; y += 2) {
          const auto mean = [&](const RealGrid& f) {
            return static_cast<double>(f[x * n + y] + f[x * n + y + 1] + f[(x + 1) * n + y] + f[(x + 1) * n + y + 1]) /
                   4;
          };
          worst = std::max(worst, std::abs(std::hypot(mean(pair[0]), mean(pair[1])) - kept));
        }
      CHECK(worst < 1e-6);
      sum += kept;
      least = std::min(least, kept);
      most = std::max(most, kept);
    }
  CHECK(sum / count == Approx(0.45).epsilon(0.02));  // what fields.hpp and the guide say
  CHECK(least > 0.14);
  CHECK(most < 0.64);
}

TEST_CASE("fields: the file has every sample in its row and says how it was made") {
  const test::TemporaryFolder folder;
  Comm comm = Comm::world();
  for (const FieldKind kind : {FieldKind::heat, FieldKind::texture}) {
    const FieldsSimulation settings = small_fields(kind, folder.file(to_string(kind) + ".h5"));
    CHECK(simulate_fields(settings, comm).samples == 30);
    const auto problem = make_problem(kind, settings.size);
    const Hdf5File file = Hdf5File::open(settings.file, comm);
    CHECK(file.info("train_fields").shape == std::vector<Index>{24, 16, 16, problem->channels()});
    CHECK(file.info("val_parameters").shape == std::vector<Index>{3, 3});
    CHECK(file.info("train_fields").type == ElementType::float32);
    Index number = 0;
    std::set<float> seen;
    for (const std::string split : {"train", "val", "test"}) {
      const std::vector<float> images = test::read_floats(file, split + "_fields"),
                               labels = test::read_floats(file, split + "_parameters");
      for (std::size_t row = 0; row < labels.size() / fields::kLabels; ++row) {
        const Sample s = field_sample(*problem, settings.size, number++, settings.seed);
        CHECK(std::equal(s.image.begin(), s.image.end(), images.begin() + static_cast<long>(row * s.image.size())));
        CHECK(std::equal(s.labels.begin(), s.labels.end(), labels.begin() + static_cast<long>(row * fields::kLabels)));
        for (const float label : s.labels) CHECK(std::abs(label) <= 1.0F);
        seen.insert(s.labels[0]);
      }
    }
    CHECK(seen.size() == 30);
    const auto meta = nlohmann::json::parse(file.read_text("meta.JSON"));
    CHECK(meta.at("kind") == to_string(kind));
    CHECK(meta.at("seed") == 4);
    CHECK(meta.at("numSamples") == nlohmann::json{{"train", 24}, {"val", 3}, {"test", 3}});
    CHECK(meta.at("parameters").at(0).at("centre") == problem->parameters()[0].centre);
  }
}

TEST_CASE("fields: blocks cover a rank's rows once, in order") {
  Comm comm = Comm::world();
  std::vector<Range> blocks;
  std::vector<Index> done;
  for_each_block(
      comm, 10, 4, [&](const Range& block) { blocks.push_back(block); },
      [&](Index samples, Index all) {
        done.push_back(samples);
        CHECK(all == 10);
      });
  CHECK(blocks == std::vector<Range>{{0, 4}, {4, 4}, {8, 2}});
  CHECK(done == std::vector<Index>{4, 8, 10});
}

TEST_CASE("fields: threads do not change a byte, seeds do") {
  const test::TemporaryFolder folder;
  Comm comm = Comm::world();
  const auto bytes = [&](const std::string& name, int threads, std::uint64_t seed) {
    FieldsSimulation settings = small_fields(FieldKind::heat, folder.file(name));
    settings.threads = threads;
    settings.seed = seed;
    simulate_fields(settings, comm);
    return test::read_bytes(settings.file);
  };
  const std::string one = bytes("one.h5", 1, 4);
  CHECK(bytes("three.h5", 3, 4) == one);
  CHECK(bytes("other.h5", 1, 5) != one);
}

TEST_CASE("fields: impossible settings are refused before anything is written") {
  const test::TemporaryFolder folder;
  Comm comm = Comm::world();
  const auto refused = [&](auto change) {
    FieldsSimulation s = small_fields(FieldKind::texture, folder.file("refused.h5"));
    change(s);
    CHECK_THROWS_AS(simulate_fields(s, comm), ConfigError);
  };
  refused([](FieldsSimulation& s) { s.file = ""; });
  refused([](FieldsSimulation& s) { s.samples = 0; });
  refused([](FieldsSimulation& s) { s.samples = 4; });  // no validation sample
  refused([](FieldsSimulation& s) { s.size = 14; });
  refused([](FieldsSimulation& s) { s.size = 33; });
  refused([](FieldsSimulation& s) { s.size = 1026; });
  refused([](FieldsSimulation& s) { s.threads = -1; });
  refused([](FieldsSimulation& s) { s.shares.train = 0.9; });
  refused([](FieldsSimulation& s) { s.shares.test = std::nan(""); });
  FieldsSimulation nowhere = small_fields(FieldKind::heat, folder.file("no/such/folder.h5"));
  CHECK_THROWS_AS(simulate_fields(nowhere, comm), Error);
  CHECK(std::filesystem::is_empty(folder.path()));
}
