// A small training that every rank can run: its data set, in a folder that all ranks see, its backend and
// configuration.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "src/config/config.hpp"
#include "tests/mpi/shared_folder.hpp"
#include "tests/unit/support/small_model.hpp"

namespace mrmf::test {

/// 41 samples of 40x2 with three labels, for training and validation alike; a batch of 4.
struct SharedTraining {
  static constexpr Index kLength = 40, kInputs = 41 * kLength * 2;
  Comm world = Comm::world();
  SharedFolder folder{world};
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Config config;

  /// Collective; `inputs` are kInputs values.
  explicit SharedTraining(std::vector<LayerSpec> layers, const std::vector<float>& inputs = random_values(kInputs, 1)) {
    const std::string file = folder.file("data.h5");
    if (world.root()) {
      write_floats(file, "x", {41, kLength, 2}, inputs);
      write_floats(file, "y", {41, 3}, random_values(41 * 3, 2));
    }
    world.barrier();
    config.data.train = config.data.validation = {{file}, "x", "y", SampleLayout::as_stored};
    config.model.layers = std::move(layers);
    config.training.batch = 4;
  }
};

}  // namespace mrmf::test
