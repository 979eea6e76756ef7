#include "layers/layer.hpp"

#include <functional>
#include <numeric>

namespace mrmf {

Index NamedTensor::count() const { return std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>()); }

void Layer::initialise(Rng& rng, Span params, Span state) const { (void)rng, (void)params, (void)state; }

std::unique_ptr<Layer> make_layer(Backend& backend, const Shape& in, const LayerSpec& spec,
                                  const LayerPosition& position) {
#define MRMF_MAKER(kind, maker, field, work) &make_##maker,
  static constexpr LayerMaker* kMakers[] = {MRMF_LAYER_KINDS(MRMF_MAKER)};  // in the order of LayerKind
#undef MRMF_MAKER
  return kMakers[static_cast<std::size_t>(spec.kind)](backend, in, spec, position);
}

}  // namespace mrmf
