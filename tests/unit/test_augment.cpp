// Random flips, turns and shifts: what they do, and what they depend on.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "kernels/check.hpp"
#include "src/data/augment.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::message;
using test::ramp;

namespace {

constexpr Extent kFull{1, 1, 1};
const Shape kSample{0, {1, 4, 4}, 2, 2}, kMask{0, {1, 4, 4}, 1, 2}, kNumber{.channels = 1};

struct Changed {
  std::vector<float> x, targets;
};

// A sample whose first channel numbers the positions, and a mask that does so too.
Changed change(const Augmentation& settings, std::uint64_t key, std::int64_t id, const Extent& resolution = kFull) {
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
                          const std::vector<Extent>& resolutions = {kFull}) {
    return message<ConfigError>([&] { require_augmentable(settings, sample, label, resolutions); });
  };
  const Shape square{0, {1, 16, 16}, 1, 2};
  CHECK(refusal({}, square, kMask).empty());
  CHECK(refusal({.flip = {0, 1}, .turn = {0, 1}, .shift = {1, 1}}, square, kNumber).empty());
  CHECK(refusal({.flip = {2}, .turn = {}, .shift = {}}, square, kNumber).find("no axis 2") != std::string::npos);
  CHECK(
      refusal({.flip = {}, .turn = {0, 1}, .shift = {}}, square, kNumber, {{1, 2, 1}, kFull}).find("different sizes") !=
      std::string::npos);
  CHECK(refusal({.flip = {0}, .turn = {}, .shift = {}}, square, kMask).find("other positions") != std::string::npos);
}
