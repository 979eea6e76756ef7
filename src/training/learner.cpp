#include "src/training/model_state.hpp"

#include "src/training/run_context.hpp"

namespace mrmf {

Learner make_learner(const Plan& plan, const Config& config, const Workplace& at, const Extent& resolution,
                     std::uint64_t seed) {
  ModelSettings settings;
  settings.network = network_settings(config, plan, at.data.shape().sample, resolution);
  if (at.lanes) settings.network.max_rows = 1;  // it is the lanes that have room for batches
  settings.seed = seed;
  return {at.backend, settings, config.training.optimizer, resolution};
}

}  // namespace mrmf
