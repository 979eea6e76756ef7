// Whole samples and which file they go to.
#include <doctest/doctest.h>

#include <set>

#include "src/simulators/cosmology/simulate.hpp"
#include "src/simulators/cosmology/universe_by_particle_mesh.hpp"

using namespace mrmf;
using namespace mrmf::cosmology;

namespace {

CosmologySimulation small_cosmology(Displacement method) {
  CosmologySimulation s;
  s.folder = "unused";
  s.size = 8;
  s.box = 128;
  s.method = method;
  s.mesh = 2;
  return s;
}

}  // namespace

TEST_CASE("cosmology: a sample follows seed and number alone and holds every particle in every channel") {
  for (const Displacement method : {Displacement::lpt, Displacement::cola}) {
    const CosmologySimulation settings = small_cosmology(method);
    const UniverseMaker maker(settings);
    UniverseMaker::Memory memory(maker), other(maker);
    std::vector<std::uint16_t> first(8 * 8 * 8 * kRedshifts), again(first), next(first);
    const auto labels = maker.make(4, memory, first);
    CHECK(labels == draw_labels(settings.seed, 4));
    maker.make(5, memory, next);
    CHECK(next != first);
    maker.make(4, memory, again);  // in used memory
    CHECK(again == first);
    maker.make(4, other, again);
    CHECK(again == first);
    for (std::size_t channel = 0; channel < kRedshifts; ++channel) {
      int sum = 0;
      for (std::size_t i = channel; i < first.size(); i += kRedshifts) sum += first[i];
      CHECK(sum == 16 * 16 * 16);
    }
  }
}

TEST_CASE("cosmology: published names and split") {
  CosmologySimulation s = small_cosmology(Displacement::lpt);
  s.samples = 10240;
  const CubeFiles full = cube_files(s);
  CHECK(full.train.size() == 64);
  CHECK(full.validation.size() == 8);
  CHECK(full.test.size() == 8);
  CHECK(full.train[0].name == "PeterA_2019_05_4parE-rec102.h5");
  CHECK(full.validation[1].name == "PeterA_2019_05_4parE-rec62.h5");
  CHECK(full.test[7].name == "PeterA_2019_05_4parE-rec77.h5");
  std::set<std::string> names;
  Index next = 0;
  for (const auto* split : {&full.train, &full.validation, &full.test})
    for (const CubeFile& file : *split) {
      names.insert(file.name);
      CHECK(file.samples == Range{next, 128});
      next += 128;
    }
  CHECK(next == s.samples);
  std::set<std::string> published;  // 20 to 117 without a last digit of 8 or 9
  for (int number = 20; number < 118; ++number)
    if (number % 10 < 8) published.insert("PeterA_2019_05_4parE-rec" + std::to_string(number) + ".h5");
  CHECK(names == published);

  s.samples = 9998;  // as many as the published files hold
  CHECK(cube_files(s).train.size() == 63);
  s.samples = 10241;
  CHECK_THROWS_WITH_AS(cube_files(s), doctest::Contains("need 65 files where 64 were published"), ConfigError);
  s.samples = 3;
  CHECK(cube_files(s).test[0].samples == Range{2, 1});
  s.samples = 100;
  s.per_file = 15;  // 80 samples in 6 files as even as can be
  const CubeFiles few = cube_files(s);
  CHECK(few.train.size() == 6);
  CHECK(few.train[0].samples == Range{0, 14});
  CHECK(few.train[5].samples == Range{67, 13});
  CHECK(few.validation[0].samples == Range{80, 10});
}
