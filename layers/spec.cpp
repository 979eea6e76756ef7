#include "layers/spec.hpp"

namespace mrmf {

std::string to_string(LayerKind kind) {
  switch (kind) {
    case LayerKind::conv: return "conv";
    case LayerKind::max_pool: return "max_pool";
    case LayerKind::average_pool: return "average_pool";
    case LayerKind::batch_norm: return "batch_norm";
    case LayerKind::flatten: return "flatten";
    case LayerKind::dense: return "dense";
    case LayerKind::relu: return "relu";
    case LayerKind::leaky_relu: return "leaky_relu";
    case LayerKind::tanh: return "tanh";
    case LayerKind::dropout: return "dropout";
  }
  return "unknown";
}

}  // namespace mrmf
