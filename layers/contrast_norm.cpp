// Local contrast normalisation (Le et al., Building High-level Features Using Large Scale Unsupervised Learning, 2012).
#include <fmt/format.h>

#include "layers/geometry.hpp"
#include "layers/makers.hpp"

namespace mrmf {
namespace {

class LocalContrastNorm final : public Layer {
 public:
  LocalContrastNorm(Backend& backend, const Shape& in, const ContrastGeometry& geometry)
      : geometry_(geometry),
        output_(output_shape(in, geometry.out.count, in.channels)),
        kept_(kContrastFields * in.n * product(in.spatial)),
        op_(backend.contrast(geometry, in.n)) {}

  std::string signature() const override {
    return fmt::format("local_contrast_norm k{}", to_string(geometry_.window, output_.axes));
  }
  Shape output() const override { return output_; }
  Footprint footprint() const override { return {.params = {}, .state = {}, .cache = kept_}; }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override { op_->forward(x, buffers.cache, y); }
  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) op_->backward(x, dy, buffers.cache, dx);
  }

 private:
  ContrastGeometry geometry_;
  Shape output_;
  Index kept_;
  std::unique_ptr<ContrastOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_local_contrast_norm(Backend& backend, const Shape& in, const LayerSpec& spec,
                                                const LayerPosition& position) {
  return std::make_unique<LocalContrastNorm>(backend, in, contrast_geometry(in, spec, position));
}

}  // namespace mrmf
