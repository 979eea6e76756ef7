// Local contrast normalisation in three passes over x, and three of its gradient: sums over channels make one number of
// each position, and sums over windows are of these. Threads share out lines of positions.
#include <cmath>

#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/formulas.hpp"

namespace mrmf::cpu {
namespace {

class Contrast final : public ContrastOp {
 public:
  explicit Contrast(const ContrastGeometry& geometry)
      : window_(geometry),
        channels_(geometry.channels),
        in_(product(geometry.in)),
        out_(product(geometry.out.count)),
        inverse_(1.0F / static_cast<float>(geometry.channels)),
        floor_(geometry.floor) {}

  void forward(ConstTensor x, Span kept, Tensor y) override {
    const ContrastFields f(kept, x.shape.n * in_);
    const ContrastWindow& w = window_;
    const Index channels = channels_;
    for_each(x.shape.n, w.all, [&, from = x.data.data(), inverse = inverse_](const RowPosition& p) {
      f.first[p.row + p.number] = sum(from + (p.row + p.number) * channels, 0, channels) * inverse;
    });
    for_each(x.shape.n, w.middle, [&, from = x.data.data(), inverse = inverse_](const RowPosition& p) {
      const float mean = w.share(p.at) * w.sum(f.first + p.row, w.all, p.at);
      f.mean[p.row + p.number] = mean;
      f.second[p.row + p.number] = squares(from + (p.row + p.number) * channels, mean, channels) * inverse;
    });
    for_each(x.shape.n, w.out, [&, from = x.data.data(), to = y.data.data(), floor = floor_](const RowPosition& p) {
      const float deviation = std::sqrt(w.share(p.at) * w.sum(f.second + p.row, w.middle, p.at));
      f.deviation[p.row + p.number] = deviation;
      const float mean = f.mean[p.row + p.number], factor = 1 / (deviation < floor ? floor : deviation);
      const float* const values = from + (p.row + p.number) * channels;
      float* const result = to + p.in_box * channels;
      for (Index c = 0; c < channels; ++c) result[c] = (values[c] - mean) * factor;
    });
  }

  void backward(ConstTensor x, ConstTensor dy, Span kept, Tensor dx) override {
    const ContrastFields f(kept, x.shape.n * in_);
    const ContrastWindow& w = window_;
    const Index channels = channels_;
    const float floor = floor_, inverse = inverse_;
    // The gradient of the variance around each position of y.
    for_each(x.shape.n, w.out, [&, from = x.data.data(), gradient = dy.data.data()](const RowPosition& p) {
      const float deviation = f.deviation[p.row + p.number], mean = f.mean[p.row + p.number];
      const float* const values = from + (p.row + p.number) * channels;
      const float* const of_y = gradient + p.in_box * channels;
      float total = 0;
#pragma omp simd reduction(+ : total)
      for (Index c = 0; c < channels; ++c) total += of_y[c] * (values[c] - mean);
      f.first[p.row + p.number] =
          deviation < floor ? 0 : -total * w.share(p.at) / (2 * deviation * deviation * deviation);
    });
    // Of what is left of x: its squares' part is second * it; and with the other part that of the mean.
    for_each(x.shape.n, w.middle, [&, from = x.data.data(), gradient = dy.data.data()](const RowPosition& p) {
      const float slope = 2 * inverse * w.sum(f.first + p.row, w.out, p.at);
      const float left = sum(from + (p.row + p.number) * channels, f.mean[p.row + p.number], channels);
      float of_y = 0;
      if (ContrastWindow::has(w.out, p.at))
        of_y = factor(f, p) * sum(gradient + number_in_out(p) * channels, 0, channels);
      f.second[p.row + p.number] = slope;
      f.third[p.row + p.number] = -(of_y + slope * left) * inverse * w.share(p.at);
    });
    for_each(x.shape.n, w.all,
             [&, from = x.data.data(), gradient = dy.data.data(), to = dx.data.data()](const RowPosition& p) {
               const Index at = p.row + p.number;
               const float of_mean = w.sum(f.third + p.row, w.middle, p.at);
               const float* const values = from + at * channels;
               float* const result = to + at * channels;
               const bool near = ContrastWindow::has(w.middle, p.at);
               const float mean = near ? f.mean[at] : 0, slope = near ? f.second[at] : 0;
               for (Index c = 0; c < channels; ++c) result[c] = of_mean + slope * (values[c] - mean);
               if (!ContrastWindow::has(w.out, p.at)) return;
               const float* const of_y = gradient + number_in_out(p) * channels;
               const float share = factor(f, p);
               for (Index c = 0; c < channels; ++c) result[c] += share * of_y[c];
             });
  }

 private:
  /// A position of a row: where the row begins in a field, its number among those of x, and among all rows' of the box
  /// that is visited.
  struct RowPosition {
    Position at;
    Index row, number, in_box;
  };

  static inline float sum(const float* x, float mean, Index channels) {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (Index c = 0; c < channels; ++c) total += x[c] - mean;
    return total;
  }
  static inline float squares(const float* x, float mean, Index channels) {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (Index c = 0; c < channels; ++c) total += (x[c] - mean) * (x[c] - mean);
    return total;
  }
  float factor(const ContrastFields& f, const RowPosition& p) const {
    const float deviation = f.deviation[p.row + p.number];
    return 1 / (deviation < floor_ ? floor_ : deviation);
  }
  Index number_in_out(const RowPosition& p) const { return p.row / in_ * out_ + window_.number_in_out(p.at); }

  template <class Use>
  void for_each(Index rows, const PositionBox& box, const Use& use) const {
    const Index line = box.end[2] - box.first[2], lines = box.count() / line;
#pragma omp parallel for schedule(static)
    for (Index l = 0; l < rows * lines; ++l)
      vectorised([&] {
        RowPosition p{ContrastWindow::position(box, static_cast<std::int32_t>(l % lines * line)), l / lines * in_, 0,
                      l * line};
        p.number = window_.number(p.at);
        for (; p.at.axis[2] < box.end[2]; ++p.at.axis[2], ++p.number, ++p.in_box) use(p);
      });
  }

  ContrastWindow window_;
  Index channels_, in_, out_;
  float inverse_, floor_;  // inverse: of the channels
};

}  // namespace

std::unique_ptr<ContrastOp> CpuBackend::contrast(const ContrastGeometry& geometry, Index) {
  return std::make_unique<Contrast>(geometry);
}

}  // namespace mrmf::cpu
