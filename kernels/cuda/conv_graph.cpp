#include "kernels/cuda/conv_graph.hpp"

#include <utility>

#include "kernels/cuda/cudnn_graph.hpp"

namespace mrmf::cuda {
namespace {

using Dims = std::vector<std::int64_t>;

enum TensorId : std::int64_t { id_x = 1, id_w, id_bias, id_dy, id_result, id_unrounded };

/// Number of leading spatial axes that mean nothing. 1-D and 2-D problems are 2-D to cuDNN, whose engines for fused
/// graphs know no fewer axes.
std::size_t unused_axes(const ConvGeometry& g) {
  const bool flat = g.in[0] == 1 && g.kernel[0] == 1 && g.stride[0] == 1 && g.pad_before[0] == 0 && g.pad_after[0] == 0;
  return flat ? 1 : 0;
}

Dims spatial(const Extent& extent, std::size_t unused) { return {extent.begin() + unused, extent.end()}; }

Dims with_leading(std::int64_t n, std::int64_t channels, Dims dims) {
  dims.insert(dims.begin(), {n, channels});
  return dims;
}

struct ConvShapes {
  Dims x, w, y, bias;
};

ConvShapes shapes_of(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const std::size_t unused = unused_axes(g);
  const std::size_t axes = 3 - unused;
  return {with_leading(problem.rows, g.in_channels, spatial(g.in, unused)),
          with_leading(g.out_channels, g.in_channels, spatial(g.kernel, unused)),
          with_leading(problem.rows, g.out_channels, spatial(g.out(), unused)),
          with_leading(1, g.out_channels, Dims(axes, 1))};
}

/// The operations of a pass. dw is in the storage type: with bf16 inputs cuDNN refuses an fp32 dw, and by the detour of
/// a virtual one it offers a single engine, which does not split the long sums over rows and positions.
std::vector<Descriptor> operations_of(const ConvProblem& problem, const Descriptor& convolution) {
  const ConvShapes shapes = shapes_of(problem);
  const cudnnDataType_t storage = problem.precision == Precision::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  const auto tensor = [&](ConvPass made_by, TensorId id, const Dims& dims) {
    return make_tensor({problem.pass == made_by ? id_result : id, dims, storage});
  };
  const Descriptor x = tensor(ConvPass::backward_data, id_x, shapes.x);
  const Descriptor w = tensor(ConvPass::backward_weights, id_w, shapes.w);
  const Descriptor y = tensor(ConvPass::forward, id_dy, shapes.y);
  std::vector<Descriptor> operations;
  if (!problem.bias) {
    operations.push_back(convolution_operation(problem.pass, convolution, {x, w, y}));
    return operations;
  }
  const Descriptor bias = make_tensor({id_bias, shapes.bias, CUDNN_DATA_FLOAT});
  const Descriptor unrounded = make_tensor({id_unrounded, shapes.y, CUDNN_DATA_FLOAT, true});
  operations.push_back(convolution_operation(problem.pass, convolution, {x, w, unrounded}));
  operations.push_back(add_operation(unrounded, bias, y));
  return operations;
}

}  // namespace

Descriptor make_conv_graph(const ConvProblem& problem, const DeviceModel& device) {
  const ConvGeometry& g = problem.geometry;
  const std::size_t unused = unused_axes(g);
  const Descriptor convolution =
      make_convolution({spatial(g.pad_before, unused), spatial(g.pad_after, unused), spatial(g.stride, unused)});
  return make_graph(operations_of(problem, convolution), device);
}

ExecutionPlan::Binding bind_conv(ConvPass pass, bool bias, const ConvPointers& pointers) {
  ExecutionPlan::Binding binding;
  const auto bind = [&](TensorId id, const void* pointer) {
    binding.ids.push_back(id);
    binding.pointers.push_back(const_cast<void*>(pointer));  // cuDNN takes inputs and outputs in one list
  };
  if (pass != ConvPass::backward_data) bind(id_x, pointers.x);
  if (pass != ConvPass::backward_weights) bind(id_w, pointers.w);
  if (pass != ConvPass::forward) bind(id_dy, pointers.dy);
  if (pass == ConvPass::forward && bias) bind(id_bias, pointers.bias);
  bind(id_result, pointers.result);
  return binding;
}

}  // namespace mrmf::cuda
