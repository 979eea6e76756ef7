// A convolution's three passes on stored activations and the program's own parameters: plans per number of rows, and
// weights in the type and padding that the plans read.
#pragma once

#include <map>
#include <memory>

#include "kernels/backend.hpp"
#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/runtime.hpp"

namespace mrmf::cuda {

class Device;

class ConvPasses {
 public:
  /// with_bias: forward adds it.
  ConvPasses(Device& device, const ConvGeometry& geometry, bool with_bias);

  void prepare(Index rows);
  void forward(Index rows, const void* x, ConstSpan w, ConstSpan b, void* y);
  /// With the weights of the last forward.
  void backward_data(Index rows, const void* dy, void* dx);
  void backward_weights(Index rows, const void* x, const void* dy, Span dw);

 private:
  struct Plans {
    std::shared_ptr<const ConvPlan> forward, data, weights;
    std::string no_data;  // why there is no plan for dx
  };
  const Plans& plans(Index rows);
  void run(const ConvPlan& plan, const ConvPointers& pointers);
  void pack(ConstSpan w, ConstSpan b);

  Device& device_;
  ConvGeometry geometry_, padded_;
  bool with_bias_;
  bool as_is_;                     // the parameters are what plans read: float32, no padding
  DeviceBuffer weights_;           // packed
  DeviceBuffer bias_;              // padded float32
  DeviceBuffer gradient_;          // of the packed weights
  const void* current_ = nullptr;  // the weights that plans read
  std::map<Index, Plans> plans_;
};

}  // namespace mrmf::cuda
