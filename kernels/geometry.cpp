#include "kernels/geometry.hpp"

namespace mrmf {

Extent ConvGeometry::out() const {
  Extent result{};
  for (std::size_t a = 0; a < 3; ++a) result[a] = (in[a] + pad_before[a] + pad_after[a] - kernel[a]) / stride[a] + 1;
  return result;
}

Extent PoolGeometry::out() const {
  Extent result{};
  for (std::size_t a = 0; a < 3; ++a) result[a] = (in[a] - window[a]) / stride[a] + 1;
  return result;
}

}  // namespace mrmf
