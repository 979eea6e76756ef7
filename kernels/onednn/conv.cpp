// Convolution by our direct kernels where they are faster, else by oneDNN: activations stay channels-last; weights are
// packed per call where a primitive wants them so.
#include "kernels/onednn/backend.hpp"
#include "kernels/onednn/direct_conv_op.hpp"
#include "kernels/onednn/weighted.hpp"

namespace mrmf::onednn {

std::unique_ptr<WeightedOp> make_conv(const Context& context, const ConvGeometry& geometry, Index max_rows) {
  if (auto direct = DirectConv::make(geometry)) return direct;
  return make_weighted(context, max_rows,
                       [geometry](Index rows) { return describe_conv(geometry, rows, Layout::channels_last); });
}

}  // namespace mrmf::onednn
