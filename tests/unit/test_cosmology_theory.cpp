// Linear theory: transfer function, growth, normalisation.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/simulators/cosmology/initial_conditions.hpp"

using namespace mrmf::cosmology;
using doctest::Approx;

TEST_CASE("cosmology: transfer, power and growth agree with CAMB") {
  // tests/peers/cosmology/camb_reference.py made the figures. Eisenstein & Hu state their fit as good to a few per cent
  // up to the smallest scales; CAMB's growth has radiation in it, ours has none: 0.4 % at redshift 3.
  std::ifstream file(std::string(MRMF_SOURCE_FOLDER) + "/tests/peers/cosmology/camb.json");
  const auto reference = nlohmann::json::parse(file);
  REQUIRE(reference.at("cases").size() == 5);
  for (const auto& c : reference.at("cases")) {
    const Cosmology cosmology{c.at("omega_m"), c.at("sigma_8"), c.at("n_s"), c.at("hubble"), c.at("omega_b")};
    CAPTURE(cosmology.omega_m);
    CAPTURE(cosmology.hubble);
    const Transfer transfer(cosmology);
    const LinearPower power(cosmology);
    const auto& k = c.at("k");
    const double first = transfer(k.at(0));
    for (std::size_t i = 0; i < k.size(); ++i) {
      CAPTURE(k.at(i).get<double>());
      CHECK(transfer(k.at(i)) / first == Approx(c.at("transfer").at(i).get<double>()).epsilon(0.05));
      CHECK(power(k.at(i)) == Approx(c.at("power").at(i).get<double>()).epsilon(0.05));
    }
    const Growth growth(cosmology.omega_m);
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(growth.linear(1 / (1 + c.at("redshifts").at(i).get<double>())) ==
            Approx(c.at("growth").at(i).get<double>()).epsilon(0.005));
  }
}

TEST_CASE("cosmology: the transfer function's wiggles are where sound puts them") {
  // Against a smooth curve through T, peaks are 2 pi / r_s apart: 105 Mpc/h or so at the middle parameters.
  const Cosmology middle;
  const Transfer transfer(middle);
  const double r = transfer.sound_horizon() * middle.h(), step = 0.002;
  CHECK(r > 95);
  CHECK(r < 115);
  CHECK(transfer(1e-5) == Approx(1).epsilon(1e-3));
  std::vector<double> peaks;
  const auto bump = [&](double k) {  // curvature of log T over half a wavelength on both sides
    const double half = 3.14159 / r;
    return 2 * std::log(transfer(k)) - std::log(transfer(k - half)) - std::log(transfer(k + half));
  };
  for (double k = 0.1; k < 0.3; k += step)
    if (bump(k) > bump(k - step) && bump(k) > bump(k + step)) peaks.push_back(k);
  REQUIRE(peaks.size() >= 3);
  for (std::size_t i = 1; i < peaks.size(); ++i)  // the grid is 0.002, a wavelength 0.06
    CHECK(peaks[i] - peaks[i - 1] == Approx(2 * 3.14159 / r).epsilon(0.1));
}

TEST_CASE("cosmology: growth") {
  const Growth matter(1);  // Einstein-de Sitter: D = a exactly, second order a^2
  for (const double a : {0.1, 0.25, 0.5, 1.0}) {
    CHECK(matter.linear(a) == Approx(a).epsilon(1e-8));
    CHECK(matter.second(a) == Approx(a * a).epsilon(1e-8));
  }
  // It solves Q d/da (Q dD/da) = 1.5 Omega_m a D with Q = a^3 E; derivatives by differences.
  const Growth growth(0.3);
  const auto q = [&](double a) { return a * a * a * growth.expansion(a); };
  const double e = 1e-3;
  for (const double a : {0.2, 0.5, 0.9}) {
    const auto slope = [&](double at) { return q(at) * (growth.linear(at + e) - growth.linear(at - e)) / (2 * e); };
    const double left = q(a) * (slope(a + e) - slope(a - e)) / (2 * e);
    CHECK(left == Approx(1.5 * 0.3 * a * growth.linear(a)).epsilon(1e-4));
  }
  CHECK(growth.linear(0) == 0);
  CHECK(growth.linear(1) == Approx(1).epsilon(1e-12));
}

TEST_CASE("cosmology: sigma_8 normalises the power spectrum") {
  for (const double sigma : {0.72, 0.8, 0.88}) {
    Cosmology c;
    c.sigma_8 = sigma;
    const LinearPower power(c);
    CHECK(power.sigma(8) == Approx(sigma).epsilon(1e-10));
    CHECK(power.sigma(16) < 0.7 * sigma);
    // On large scales nothing but the primordial slope is left.
    CHECK(std::log(power(2e-5) / power(1e-5)) / std::log(2.0) == Approx(c.n_s).epsilon(1e-3));
  }
}

TEST_CASE("cosmology: labels are uniform, exact and follow seed and sample alone") {
  CHECK(draw_labels(1, 5) == draw_labels(1, 5));
  CHECK(draw_labels(1, 5) != draw_labels(1, 6));
  CHECK(draw_labels(1, 5) != draw_labels(2, 5));
  constexpr int kCount = 4000;
  std::array<double, mrmf::cosmology::kLabels> sum{}, squares{};
  for (int i = 0; i < kCount; ++i) {
    const auto u = draw_labels(9, i);
    const Cosmology c = cosmology_of(u);
    CHECK(c.omega_m == Approx(0.3 * (1 + 0.1 * static_cast<double>(u[0]))).epsilon(1e-12));
    for (std::size_t k = 0; k < mrmf::cosmology::kLabels; ++k) {
      REQUIRE(u[k] >= -1);
      REQUIRE(u[k] < 1);
      sum[k] += static_cast<double>(u[k]);
      squares[k] += static_cast<double>(u[k]) * static_cast<double>(u[k]);
    }
  }
  for (std::size_t k = 0; k < mrmf::cosmology::kLabels; ++k) {  // four standard errors: 0.577 and 0.298 over sqrt(4000)
    CHECK(std::abs(sum[k] / kCount) < 0.037);
    CHECK(std::abs(squares[k] / kCount - 1.0 / 3) < 0.019);
  }
  const Cosmology low = cosmology_of({-1, -1, -1, -1});
  CHECK(low.omega_m == Approx(0.27));
  CHECK(low.sigma_8 == Approx(0.72));
  CHECK(low.n_s == Approx(0.864));
  CHECK(low.hubble == Approx(63));
}
