#include "kernels/formulas.hpp"
#include "kernels/reference/backend.hpp"

namespace mrmf::reference {

void sgd(const SgdStep& step, Span w, ConstSpan dw, Span velocity) {
  for (std::size_t i = 0; i < w.size(); ++i) sgd_update(step, w[i], dw[i], velocity[i]);
}

void adam(const AdamStep& step, Span w, ConstSpan dw, Span m, Span v) {
  for (std::size_t i = 0; i < w.size(); ++i) adam_update(step, w[i], dw[i], m[i], v[i]);
}

}  // namespace mrmf::reference
