#include "src/replicas.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {

bool same_parameters(Model& model, Comm& team) {
  const std::uint64_t params = XXH3_64bits(model.params().data(), model.params().size_bytes());
  return team.agree(XXH3_64bits_withSeed(model.state().data(), model.state().size_bytes(), params));
}

void average_state(Model& model, Comm& team) {
  team.sum(model.state());
  const auto share = 1.0F / static_cast<float>(team.size());
  for (float& value : model.state()) value *= share;
}

}  // namespace mrmf
