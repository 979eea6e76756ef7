#include <vector>

#include "kernels/onednn/operations.hpp"

namespace mrmf::onednn {

void average(ConstTensor x, const Extent& factor, Tensor y) {
  const Extent &in = x.shape.spatial, &out = y.shape.spatial;
  for (std::size_t a = 0; a < 3; ++a) MRMF_CHECK(out[a] * factor[a] == in[a], "the factor must divide the axis");
  const Index channels = x.shape.channels, lines = x.shape.n * out[0] * out[1];
  const double share = 1.0 / static_cast<double>(product(factor));
#pragma omp parallel
  {
    std::vector<double> sum(static_cast<std::size_t>(out[2] * channels));
#pragma omp for schedule(static)
    for (Index line = 0; line < lines; ++line) {
      const Index n = line / (out[0] * out[1]), i = line / out[1] % out[0], j = line % out[1];
      std::fill(sum.begin(), sum.end(), 0.0);
      for (Index a = 0; a < factor[0]; ++a)
        for (Index b = 0; b < factor[1]; ++b) {
          const Index first = ((n * in[0] + i * factor[0] + a) * in[1] + j * factor[1] + b) * in[2] * channels;
          const float* from = x.data.data() + first;
          for (Index k = 0; k < in[2]; ++k, from += channels)
            for (Index c = 0; c < channels; ++c) sum[k / factor[2] * channels + c] += from[c];
        }
      float* to = y.data.data() + line * out[2] * channels;
      for (Index e = 0; e < out[2] * channels; ++e) to[e] = static_cast<float>(sum[e] * share);
    }
  }
}

}  // namespace mrmf::onednn
