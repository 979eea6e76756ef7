#include <cstdio>
#include <exception>
#include <iostream>
#include <mrmf/mrmf.hpp>

// Trains what a configuration says, once for each of three learning rates.
int main(int argc, char** argv) {
  const mrmf::MpiEnvironment session(argc, argv);
  try {
    mrmf::Comm world = mrmf::Comm::world();
    for (const double rate : {1e-3, 3e-3, 1e-2}) {
      mrmf::Config config = mrmf::read_config(argv[1], {});
      config.training.optimizer.learning_rate = rate;
      config.run.folder = "runs/rate-" + std::to_string(rate);
      const mrmf::RunResult result = mrmf::train_run(config, {.out = &std::cout}, world);
      if (world.root()) std::printf("rate %g: validation loss %.5f\n", rate, result.validation_loss);
    }
  } catch (const std::exception& error) {  // an error, or mrmf::Stopped after Ctrl-C
    std::fprintf(stderr, "mytrain: %s\n", error.what());
    if (session.ranks() > 1) session.abort(1);  // the others may wait for this rank
    return 1;
  }
}
