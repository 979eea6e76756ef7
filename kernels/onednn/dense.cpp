// Dense layers by oneDNN's inner product.
#include "kernels/onednn/backend.hpp"
#include "kernels/onednn/primitives.hpp"

namespace mrmf::onednn {

std::unique_ptr<WeightedOp> OnednnBackend::dense(Index in, Index out, Index max_rows) {
  // Only AVX-512's blocked kernels repay packing the weights; a plain matrix product reads them as they are.
  return make_weighted(*context_, max_rows, [&context = *context_, in, out](Index rows) {
    const DenseDescs packed = describe_dense(in, out, rows, Layout::channels_last);
    const std::string implementation = describe_forward(context, packed).impl_info_str();
    const bool blocked = implementation.find("brgemm") != std::string::npos;
    return blocked ? packed : describe_dense(in, out, rows, Layout::plain);
  });
}

}  // namespace mrmf::onednn
