// Convolutions and dense layers by oneDNN's primitives.
#include "kernels/onednn/operations.hpp"
#include "kernels/onednn/primitives.hpp"

namespace mrmf::onednn {

std::unique_ptr<WeightedOp> make_conv(const Context& context, const ConvGeometry& geometry, Index max_rows) {
  return make_weighted(context, max_rows,
                       [geometry](Index rows) { return describe_conv(geometry, rows, Layout::channels_last); });
}

std::unique_ptr<WeightedOp> make_dense(const Context& context, Index in, Index out, Index max_rows) {
  // Only AVX-512's blocked kernels repay packing the weights; a plain matrix product reads them as they are.
  return make_weighted(context, max_rows, [&context, in, out](Index rows) {
    const DenseDescs packed = describe_dense(in, out, rows, Layout::channels_last);
    const std::string implementation = describe_forward(context, packed).impl_info_str();
    const bool blocked = implementation.find("brgemm") != std::string::npos;
    return blocked ? packed : describe_dense(in, out, rows, Layout::plain);
  });
}

}  // namespace mrmf::onednn
