#include "layers/layer.hpp"

#include <functional>
#include <numeric>

#include "layers/makers.hpp"

namespace mrmf {

Index NamedTensor::count() const { return std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>()); }

void Layer::initialise(Rng& rng, Span params, Span state) const { (void)rng, (void)params, (void)state; }

bool is_elementwise(LayerKind kind) { return activation_of(kind) || kind == LayerKind::dropout; }

std::unique_ptr<Layer> make_layer(Backend& backend, const Shape& in, const LayerSpec& spec,
                                  const LayerPosition& position) {
  switch (spec.kind) {
    case LayerKind::conv: return make_conv(backend, in, spec, position.available_box);
    case LayerKind::conv_transpose: return make_conv_transpose(backend, in, spec);
    case LayerKind::locally_connected: return make_locally_connected(backend, in, spec);
    case LayerKind::rica: return make_rica(backend, in, spec);
    case LayerKind::l2_pool: return make_l2_pool(backend, in, spec);
    case LayerKind::local_contrast_norm: return make_local_contrast_norm(backend, in, spec, position);
    case LayerKind::max_pool:
    case LayerKind::average_pool: return make_pool(backend, in, spec);
    case LayerKind::global_average_pool: return make_global_average_pool(backend, in, spec);
    case LayerKind::upsample: return make_upsample(backend, in, spec);
    case LayerKind::batch_norm: return make_batch_norm(backend, in, spec, position.statistics_box);
    case LayerKind::group_norm:
    case LayerKind::layer_norm: return make_group_norm(backend, in, spec, product(position.sample_extent));
    case LayerKind::flatten: return make_flatten(backend, in);
    case LayerKind::dense: return make_dense(backend, in, spec);
    case LayerKind::relu:
    case LayerKind::leaky_relu:
    case LayerKind::tanh:
    case LayerKind::gelu:
    case LayerKind::silu:
    case LayerKind::softplus:
    case LayerKind::sigmoid: return make_activation(backend, in, spec);
    case LayerKind::dropout: return make_dropout(backend, in, spec, position);
    case LayerKind::add:
    case LayerKind::concat: return make_join(backend, {&in, 1}, spec);
    case LayerKind::labels: return make_labels(backend, in, spec);
    case LayerKind::noise: return make_noise(backend, in, spec, position);
    case LayerKind::slice: return make_slice(backend, in, spec);
    case LayerKind::stop_gradient: return make_stop_gradient(backend, in);
  }
  MRMF_CHECK(false, "a layer kind that make_layer does not know");
}

}  // namespace mrmf
