#include "kernels/reference/reference.hpp"

namespace mrmf::reference {

void average(ConstTensor x, const Extent& factor, Tensor y) {
  for (std::size_t a = 0; a < 3; ++a)
    MRMF_CHECK(y.shape.spatial[a] * factor[a] == x.shape.spatial[a], "the factor must divide the axis");
  const Window window{x.shape.spatial, factor, factor, {0, 0, 0}};
  Index element = 0;
  for (Index row = 0; row < x.shape.n; ++row)
    for_each_position(y.shape.spatial, [&](const Extent& at) {
      for (Index c = 0; c < x.shape.channels; ++c) {
        double sum = 0;
        for_each_tap(window, at, [&](Index, Index position) {
          sum += x.data[row * x.shape.per_sample() + position * x.shape.channels + c];
        });
        y.data[element++] = static_cast<float>(sum / static_cast<double>(product(factor)));
      }
    });
}

}  // namespace mrmf::reference
