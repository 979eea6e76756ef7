// NormConvOp for backends in host memory, made of their own batch norm and convolution.
#pragma once

#include "kernels/backend.hpp"

namespace mrmf::cpu {

struct NormConvParts {
  std::unique_ptr<NormOp> norm;
  std::unique_ptr<WeightedOp> conv;
};
std::unique_ptr<NormConvOp> make_norm_conv(NormConvParts parts, const ConvGeometry& geometry);

/// dgamma and dbeta from TapSums' sums and from dw taken with the normalised input. Then turns dw into the gradient of
/// the weights.
void norm_conv_gradients(const NormConvOp::Backward& b, const ConvGeometry& geometry, std::span<const double> sums);

/// sums(tap, out channel), in double: sums of dy over the output positions for which the tap lies inside the input.
class TapSums {
 public:
  explicit TapSums(const ConvGeometry& geometry);
  std::span<const double> operator()(ConstTensor dy);

  /// The same, plane by plane. Each plane is added to one part of the sums. No two threads add to one part at a time.
  void start(Index parts);
  void add_plane(Index part, Index plane, const float* dy);  ///< plane: counted over all samples
  std::span<const double> total();

 private:
  struct Range {
    Index begin, end;  ///< output positions along an axis
  };
  void add_line(const float* dy, double* line) const;

  ConvGeometry g_;
  Extent out_;
  std::array<std::vector<Range>, 3> ranges_;  // per axis and tap
  Index line_, plane_, volume_;               // number of sums for the taps along the last one, two and three axes
  Index stride_;                              // numbers per part: volume_, plane_ and line_
  std::vector<double> sums_;
};

}  // namespace mrmf::cpu
