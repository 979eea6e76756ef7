// NormConvOp for backends whose memory is the host's, from their own batch norm and convolution.
#pragma once

#include "kernels/backend.hpp"

namespace mrmf {

struct NormConvParts {
  std::unique_ptr<NormOp> norm;
  std::unique_ptr<WeightedOp> conv;
};
std::unique_ptr<NormConvOp> make_host_norm_conv(NormConvParts parts, const ConvGeometry& geometry);

/// dgamma and dbeta, from dw as taken with the normalised input, and from sums of TapSums; makes dw that of the
/// weights.
void norm_conv_gradients(const NormConvOp::Backward& b, const ConvGeometry& geometry, std::span<const double> sums);

/// sums(tap, out channel), in double: of dy over the output positions under which the tap lies inside of the input.
class TapSums {
 public:
  explicit TapSums(const ConvGeometry& geometry);
  std::span<const double> operator()(ConstTensor dy);

  /// The same plane by plane, each by one of the threads that OpenMP promised when this was made, as it is at hand.
  void start();
  void add_plane(int thread, Index plane, const float* dy);  ///< plane: counted over all samples
  std::span<const double> total();

 private:
  struct Range {
    Index begin, end;  ///< of output positions along an axis
  };
  void add_line(const float* dy, double* line) const;

  ConvGeometry g_;
  Extent out_;
  std::array<std::vector<Range>, 3> ranges_;  // per axis and tap
  Index line_, plane_, volume_;               // sums for the taps along the last one, two and three axes
  Index stride_;                              // of a thread's sums: volume_, plane_, line_
  std::vector<double> sums_;
  int threads_;
};

}  // namespace mrmf
