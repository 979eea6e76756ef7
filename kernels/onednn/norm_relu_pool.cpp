// Batch norm, ReLU or leaky ReLU, and average pooling in one pass over x; backward recomputes what lies between.
#include <vector>

#include "kernels/onednn/backend.hpp"
#include "kernels/onednn/norm.hpp"

namespace mrmf::onednn {
namespace {

PoolGeometry pool_of(const NormReluPool& s) {
  return s.pool ? *s.pool : PoolGeometry{PoolKind::average, s.norm.channels, s.in, {1, 1, 1}, {1, 1, 1}};
}

class NormActivatePool final : public NormOp {
 public:
  explicit NormActivatePool(const NormReluPool& settings)
      : loops_(norm_kernels()), pool_(pool_of(settings)), out_(pool_.out()), sums_(settings.norm) {
    line_.positions = pool_.in[2];
    line_.channels = pool_.channels;
    line_.window = pool_.window[2];
    line_.pooled = out_[2];
    line_.share = 1.0F / static_cast<float>(product(pool_.window));
    line_.slope = settings.slope;
  }

  void forward(const Step& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    if (step.training) sums_.update_statistics(step, x.data, memory);
    const norm_loops::Terms terms = sums_.terms(step, memory);
    const Index in_line = line_.positions * line_.channels, out_line = line_.pooled * line_.channels;
    sums_.share_out(x.shape.n * out_[0] * out_[1], [&](Index first, Index last) {
      std::array<const float*, most_lines> lines{};
      for (Index line = first; line < last; ++line) {
        const Index count = lines_under(line, x.data.data(), in_line, lines);
        loops_.forward(line_, terms, lines.data(), count, y.data.data() + line * out_line);
      }
    });
  }

  void backward(const Step& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma, Span dbeta,
                Tensor dx) override {
    const norm_loops::Terms terms = sums_.terms(step, memory);
    const Index lines = x.shape.n * pool_.in[0] * pool_.in[1], in_line = line_.positions * line_.channels;
    sums_.add_up(lines, [&](Index first, Index last, double* sums) {
      for (Index line = first; line < last; ++line)
        if (const float* from = gradient_of(line, dy.data.data()))
          loops_.gradients(line_, terms, x.data.data() + line * in_line, from, sums);
    });
    sums_.parameter_gradients(memory, dgamma, dbeta);
    if (dx.data.empty()) return;
    const norm_loops::DataTerms data = sums_.data_terms(step, lines * line_.positions, memory);
    sums_.share_out(lines, [&](Index first, Index last) {
      for (Index line = first; line < last; ++line)
        loops_.data(line_, terms, data, x.data.data() + line * in_line, gradient_of(line, dy.data.data()),
                    dx.data.data() + line * in_line);
    });
  }

  static bool offers(const NormReluPool& settings) {
    const PoolGeometry pool = pool_of(settings);
    return pool.window[0] * pool.window[1] <= most_lines;
  }

 private:
  static constexpr Index most_lines = 16;  // of input under a line of output

  /// The input lines under an output line, both counted over all samples.
  Index lines_under(Index line, const float* x, Index in_line, std::array<const float*, most_lines>& lines) const {
    const Index sample = line / (out_[0] * out_[1]), i = line / out_[1] % out_[0], j = line % out_[1];
    std::size_t count = 0;
    for (Index a = i * pool_.window[0]; a < (i + 1) * pool_.window[0]; ++a)
      for (Index b = j * pool_.window[1]; b < (j + 1) * pool_.window[1]; ++b)
        lines[count++] = x + ((sample * pool_.in[0] + a) * pool_.in[1] + b) * in_line;
    return static_cast<Index>(count);
  }

  /// The line of dy over an input line; null where no window holds it.
  const float* gradient_of(Index line, const float* dy) const {
    const Index sample = line / (pool_.in[0] * pool_.in[1]);
    const Index i = line / pool_.in[1] % pool_.in[0] / pool_.window[0], j = line % pool_.in[1] / pool_.window[1];
    if (i >= out_[0] || j >= out_[1]) return nullptr;
    return dy + ((sample * out_[0] + i) * out_[1] + j) * line_.pooled * line_.channels;
  }

  const norm_loops::Kernels& loops_;
  PoolGeometry pool_;
  Extent out_;
  norm_loops::Line line_{};
  NormSums sums_;
};

}  // namespace

std::unique_ptr<NormOp> make_norm_relu_pool(const NormReluPool& settings) {
  if (!NormActivatePool::offers(settings)) return nullptr;
  return std::make_unique<NormActivatePool>(settings);
}

}  // namespace mrmf::onednn
