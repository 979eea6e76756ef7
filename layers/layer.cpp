#include "layers/layer.hpp"

#include <functional>
#include <numeric>

namespace mrmf {

Index Part::count() const { return std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>()); }

void Layer::initialise(Rng& rng, Span params, Span state) const { (void)rng, (void)params, (void)state; }

}  // namespace mrmf
