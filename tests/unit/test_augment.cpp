// Random flips, turns and shifts: what they do, and what they depend on.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/errors.hpp"
#include "src/data/augmentation.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::message;
using test::ramp;

namespace {

constexpr Extent kUnaveraged{1, 1, 1};
const Shape kSample{0, {1, 4, 4}, 2, 2}, kMask{0, {1, 4, 4}, 1, 2}, kNumber{.channels = 1};

struct Changed {
  std::vector<float> x, targets;
};

// A sample whose first channel numbers the positions, and a mask that does so too.
Changed change(const Augmentation& settings, std::uint64_t key, std::int64_t id,
               const Extent& resolution = kUnaveraged) {
  Changed made;
  for (int p = 0; p < 16; ++p) {
    made.x.insert(made.x.end(), {static_cast<float>(p), static_cast<float>(100 + p)});
    made.targets.push_back(static_cast<float>(p));
  }
  const std::int64_t ids[] = {id};
  Augmenter(settings, kSample, kMask, resolution).change(key, ids, made.x, made.targets);
  return made;
}

std::vector<float> positions(const Changed& made) {
  std::vector<float> first;
  for (std::size_t i = 0; i < made.x.size(); i += 2) first.push_back(made.x[i]);
  return first;
}

}  // namespace

TEST_CASE("augmentation: every symmetry of a square, and samples and masks alike") {
  const Augmentation all{.flip = {0, 1}, .turn = {0, 1}, .shift = {}};
  std::set<std::vector<float>> seen;
  for (std::int64_t id = 0; id < 200; ++id) {
    const Changed made = change(all, 5, id);
    CHECK(positions(made) == made.targets);
    for (std::size_t i = 0; i < 32; i += 2) CHECK(made.x[i + 1] == made.x[i] + 100);  // channels stay together
    seen.insert(made.targets);
  }
  CHECK(seen.size() == 8);
  CHECK(seen.contains(ramp(16)));
  CHECK(seen.contains({3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12}));  // mirrored along the last axis
  CHECK(seen.contains({0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}));  // turned
}

TEST_CASE("augmentation: shifts are periodic, and as many coarse positions as they come to") {
  const Augmentation shift{.flip = {}, .turn = {}, .shift = {0, 2}};
  std::set<std::vector<float>> seen, coarse;
  for (std::int64_t id = 0; id < 100; ++id) {
    seen.insert(change(shift, 5, id).targets);
    coarse.insert(change(shift, 5, id, {1, 2, 2}).targets);
  }
  CHECK(seen.size() == 4);  // by -2, -1, 0, 1 and 2, of which the first and the last are the same
  CHECK(seen.contains({1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12}));
  CHECK(coarse.size() == 3);
}

TEST_CASE("augmentation: a function of the key and the sample") {
  const Augmentation all{.flip = {0, 1}, .turn = {0, 1}, .shift = {3, 3}};
  CHECK(change(all, 5, 7).x == change(all, 5, 7).x);
  int other_key = 0, other_id = 0;
  for (std::int64_t id = 0; id < 20; ++id) {
    other_key += change(all, 5, id).x != change(all, 6, id).x ? 1 : 0;
    other_id += change(all, 5, id).x != change(all, 5, id + 1).x ? 1 : 0;
  }
  CHECK(other_key > 15);
  CHECK(other_id > 15);
}

TEST_CASE("augmentation: what does not suit the data is refused, at every resolution") {
  const auto refusal = [](const Augmentation& settings, const Shape& sample, const Shape& label,
                          const std::vector<Extent>& resolutions = {kUnaveraged}) {
    DataConfig data;
    data.augment = settings;
    return message<ConfigError>([&] { require_augmentable(data, sample, label, resolutions); });
  };
  const Shape square{0, {1, 16, 16}, 1, 2};
  CHECK(refusal({}, square, kMask).empty());
  CHECK(refusal({.flip = {0, 1}, .turn = {0, 1}, .shift = {1, 1}}, square, kNumber).empty());
  CHECK(refusal({.flip = {2}, .turn = {}, .shift = {}}, square, kNumber).find("no axis 2") != std::string::npos);
  CHECK(refusal({.flip = {}, .turn = {0, 1}, .shift = {}}, square, kNumber, {{1, 2, 1}, kUnaveraged})
            .find("different sizes") != std::string::npos);
  CHECK(refusal({.flip = {0}, .turn = {}, .shift = {}}, square, kMask).find("other positions") != std::string::npos);
}

namespace {

const Shape kPlane{0, {1, 9, 9}, 2, 2}, kPlaneMask{0, {1, 9, 9}, 1, 2};

// A plane whose channels are the position along each axis, and a mask of its middle.
Changed change_plane(const Augmentation& settings, std::int64_t id, const NumberKinds& kinds = {}) {
  Changed made;
  for (int i = 0; i < 9; ++i)
    for (int j = 0; j < 9; ++j) {
      made.x.insert(made.x.end(), {static_cast<float>(i), static_cast<float>(j)});
      made.targets.push_back(i > 2 && i < 6 && j > 2 && j < 6 ? 1.0F : -1.0F);
    }
  const std::int64_t ids[] = {id};
  Augmenter(settings, kPlane, kPlaneMask, kUnaveraged, kinds).change(3, ids, made.x, made.targets);
  return made;
}

float value_at(const Changed& made, int i, int j, int channel) {
  return made.x[static_cast<std::size_t>((i * 9 + j) * 2 + channel)];
}

}  // namespace

TEST_CASE("augmentation: zooms and turns keep straight lines straight, angles right, and classes classes") {
  double least = 9, most = 0, largest_turn = 0;
  for (std::int64_t id = 0; id < 100; ++id) {
    const Changed made = change_plane({.flip = {}, .turn = {}, .shift = {}, .zoom = 0.25, .rotate = 20}, id);
    CHECK(value_at(made, 4, 4, 0) == doctest::Approx(4));  // the middle stays
    CHECK(value_at(made, 4, 4, 1) == doctest::Approx(4));
    const double down = value_at(made, 5, 4, 0) - value_at(made, 4, 4, 0),
                 across = value_at(made, 5, 4, 1) - value_at(made, 4, 4, 1);
    CHECK(value_at(made, 6, 4, 0) - value_at(made, 5, 4, 0) == doctest::Approx(down));
    CHECK(value_at(made, 4, 5, 1) - value_at(made, 4, 4, 1) == doctest::Approx(down));
    CHECK(value_at(made, 4, 5, 0) - value_at(made, 4, 4, 0) == doctest::Approx(-across));
    const double size = std::hypot(down, across), turn = std::abs(std::atan2(across, down)) * 180 / 3.14159265;
    least = std::min(least, size), most = std::max(most, size), largest_turn = std::max(largest_turn, turn);
    CHECK(std::ranges::all_of(made.targets, [](float t) { return t == 1 || t == -1; }));
  }
  CHECK((least >= 0.7999 && least < 0.85 && most <= 1.2501 && most > 1.2));
  CHECK((largest_turn <= 20.001 && largest_turn > 17));
}

TEST_CASE("augmentation: noise and intensity change samples' numbers alone") {
  double squares = 0;
  for (std::int64_t id = 0; id < 200; ++id) {
    const Changed made = change_plane({.flip = {}, .turn = {}, .shift = {}, .noise = 0.5}, id, {.mask = true});
    CHECK(made.targets == change_plane({}, id).targets);
    for (int p = 0; p < 9; ++p) CHECK(value_at(made, p, 2, 1) == 2);  // what says what is there stays
    squares += std::pow(value_at(made, 1, 1, 0) - 1, 2);
    const Changed scaled = change_plane({.flip = {}, .turn = {}, .shift = {}, .intensity = 0.2}, id);
    const double offset = value_at(scaled, 0, 0, 0), factor = value_at(scaled, 1, 0, 0) - offset;
    CHECK((std::abs(offset) <= 0.2 && factor >= 0.8 && factor <= 1.2));
    CHECK(value_at(scaled, 8, 3, 0) == doctest::Approx(offset + 8 * factor).epsilon(1e-5));
  }
  CHECK(squares / 200 == doctest::Approx(0.25 / 3).epsilon(0.3));  // the mean of a uniform deviation's square
}

TEST_CASE("augmentation: vectors follow flips and turns, whatever their units") {
  NumberKinds kinds{.vectors = {.samples = {0, 1}, .labels = {}}, .samples = {.scale = {0.5F, 2}, .shift = {1, -3}}};
  Changed made;
  for (int p = 0; p < 16; ++p) made.x.insert(made.x.end(), {0.5F * static_cast<float>(p) + 1, 2 * 10 - 3});  // (p, 10)
  const std::vector<float> before = made.x;
  const auto changed = [&](const Augmentation& settings, std::int64_t id) {
    std::vector<float> x = before;
    const std::int64_t ids[] = {id};
    std::vector<float> target(1);
    Augmenter(settings, kSample, kNumber, kUnaveraged, kinds).change(3, ids, x, target);
    return x;
  };
  std::set<std::pair<float, float>> seen;  // the first vector's components, in their own units
  for (std::int64_t id = 0; id < 60; ++id) {
    const std::vector<float> x = changed({.flip = {0, 1}, .turn = {0, 1}, .shift = {}}, id);
    seen.insert({(x[0] - 1) / 0.5F, (x[1] + 3) / 2});
    for (std::size_t i = 0; i < 32; i += 2) {
      const double first = (x[i] - 1) / 0.5, second = (x[i + 1] + 3) / 2;
      CHECK(std::max(std::abs(first), std::abs(second)) >= 10);
    }
  }
  CHECK(seen.size() == 8);
  CHECK(seen.contains({0, 10}));
  CHECK(seen.contains({-15, -10}));  // turned by half a circle, the last position is the first
  DataConfig data;
  data.vectors.samples = {0};
  const auto refusal = [&] {
    return message<ConfigError>([&] { require_augmentable(data, kSample, kMask, {kUnaveraged}); });
  };
  CHECK(refusal().find("no whole vectors") != std::string::npos);
  data.vectors.samples = {0, 2};
  CHECK(refusal().find("no channel 2") != std::string::npos);
  data.vectors.samples = {1, 1};
  CHECK(refusal().find("named twice") != std::string::npos);
  data.vectors.samples = {1, 0};
  CHECK(refusal().empty());
}
