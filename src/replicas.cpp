#include "src/replicas.hpp"

#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {
namespace {

std::vector<float> on_host(Backend& backend, ConstSpan values) {
  std::vector<float> copy(values.size());
  backend.read(values, copy);
  return copy;
}

}  // namespace

bool same_parameters(Backend& backend, Model& model, Comm& team) {
  const std::vector<float> params = on_host(backend, model.params()), state = on_host(backend, model.state());
  const std::uint64_t hash = XXH3_64bits(params.data(), params.size() * sizeof(float));
  return team.agree(XXH3_64bits_withSeed(state.data(), state.size() * sizeof(float), hash));
}

void average_state(Backend& backend, Model& model, Comm& team) {
  std::vector<float> state = on_host(backend, model.state());
  team.sum(state);
  const auto share = 1.0F / static_cast<float>(team.size());
  for (float& value : state) value *= share;
  backend.write(state, model.state());
}

}  // namespace mrmf
