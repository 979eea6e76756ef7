// Batch norm, alone and with what stands behind it in one pass, and local contrast normalisation.
#include "kernels/cpu/batch_norm.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/channel_and_sgd_loops.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/formulas.hpp"

namespace mrmf::cpu {

const norm_loops::Kernels& norm_kernels() {
  return *of_set(instruction_set(), norm_loops::generic_kernels, norm_loops::avx2_kernels,
                 norm_loops::avx512_kernels)();
}

NormSums::NormSums(const NormSettings& settings)
    : settings_(settings),
      channels_(settings.channels),
      threads_(omp_get_max_threads()),
      parts_(sum_parts(threads_, 2 * channels_, most_added_serially)),
      partial_(static_cast<std::size_t>(parts_ * 2 * channels_)),
      sums_(static_cast<std::size_t>(2 * channels_ + 1)),
      factor_(static_cast<std::size_t>(channels_)),
      mean_(factor_.size()),
      ones_(factor_.size(), 1.0F),
      offset_(factor_.size()),
      slope_(factor_.size()) {}

float NormSums::inverse_root(double variance) const {
  return static_cast<float>(1.0 / std::sqrt(variance + double{settings_.epsilon}));
}

namespace {

/// Sums of values and of their squares.
struct Moments {
  double sum, squares;
};
/// Those of so many values, from those of their distances from `from`.
Moments moments_from(const Moments& distances, double from, double count) {
  return {distances.sum + count * from, distances.squares + from * (2 * distances.sum + count * from)};
}

}  // namespace

/// Leaves the sums of x and of its squares. The loops sum distances from the first row, so that their floats stay near
/// zero. That row's contribution is added back in double.
void NormSums::add_moments(ConstSpan x) {
  const float* shift = x.data();
  const Extent& in = settings_.in;
  const Index all = std::ssize(x) / channels_, samples = all / product(in);
  const Box box = settings_.counted.value_or(Box{});
  if (settings_.counted)
    add_up(samples * box.count[0] * box.count[1], [&](Index first, Index last, double* sums) {
      for (Index line = first; line < last; ++line) {
        const Index j = box.first[1] + line % box.count[1], sample = line / box.count[1] / box.count[0];
        const Index i = box.first[0] + line / box.count[1] % box.count[0];
        const Index row = ((sample * in[0] + i) * in[1] + j) * in[2] + box.first[2];
        norm_kernels().moments(box.count[2], channels_, x.data() + row * channels_, shift, sums);
      }
    });
  else
    add_up(all, [&](Index first, Index last, double* sums) {
      norm_kernels().moments(last - first, channels_, x.data() + first * channels_, shift, sums);
    });
  const auto count = static_cast<double>(settings_.counted ? samples * product(box.count) : all);
  for (Index c = 0; c < channels_; ++c) {
    const Moments of = moments_from({sums_[c], sums_[channels_ + c]}, shift[c], count);
    sums_[c] = of.sum, sums_[channels_ + c] = of.squares;
  }
  sums_.back() = count;
}

void NormSums::update_statistics(const StepContext& step, ConstSpan x, const NormMemory& memory) {
  add_moments(x);
  take_statistics(step, memory);
}

// More parts than of sums over what is there: a convolution's planes take a thread much longer than reading them.
void NormSums::prepare_moments() {
  constexpr Index most_parts = 16, most_numbers = most_added_serially / 4;
  moment_parts_ = threads_ == 1 ? 1 : threads_ * std::clamp<Index>(most_numbers / (2 * channels_), 1, most_parts);
  const auto parts = static_cast<std::size_t>(moment_parts_);
  shifts_.resize(parts * factor_.size());
  rows_.resize(parts);
  if (partial_.size() < 2 * shifts_.size()) partial_.resize(2 * shifts_.size());
}

Index NormSums::start_moments(Index most) {
  if (moment_parts_ == 0) prepare_moments();
  const Index parts = std::min(most, moment_parts_);
  std::ranges::fill(rows_, 0);
  std::fill_n(partial_.data(), parts * 2 * channels_, 0.0);
  return parts;
}

void NormSums::add_rows(Index part, const float* x, Index rows) {
  float* const shift = shifts_.data() + part * channels_;
  Index& so_far = rows_[static_cast<std::size_t>(part)];
  if (so_far == 0) std::copy_n(x, channels_, shift);
  so_far += rows;
  norm_kernels().moments(rows, channels_, x, shift, partial_.data() + part * 2 * channels_);
}

std::optional<direct::Moments> NormSums::moments_of(Index part, Index rows) {
  Index& so_far = rows_[static_cast<std::size_t>(part)];
  if (so_far == 0) return std::nullopt;
  so_far += rows;
  return direct::Moments{shifts_.data() + part * channels_, partial_.data() + part * 2 * channels_};
}

void NormSums::update_statistics(const StepContext& step, const NormMemory& memory) {
  std::ranges::fill(sums_, 0.0);
  for (std::size_t part = 0; part < rows_.size(); ++part) {
    if (rows_[part] == 0) continue;
    const double* const sums = partial_.data() + part * 2 * factor_.size();
    const auto count = static_cast<double>(rows_[part]);
    for (Index c = 0; c < channels_; ++c) {
      const double from = shifts_[part * factor_.size() + static_cast<std::size_t>(c)];
      const Moments of = moments_from({sums[c], sums[channels_ + c]}, from, count);
      sums_[c] += of.sum, sums_[channels_ + c] += of.squares;
    }
    sums_.back() += count;
  }
  take_statistics(step, memory);
}

void NormSums::take_statistics(const StepContext& step, const NormMemory& memory) {
  if (step.team_sum != nullptr) step.team_sum->sum(sums_);
  const double count = sums_.back(), unbias = count / std::max(count - 1.0, 1.0);
  const auto drift = [this](float& running, double batch) {
    running = static_cast<float>(running + double{settings_.momentum} * (batch - running));
  };
  for (Index c = 0; c < channels_; ++c) {
    const double mean = sums_[c] / count;
    const double variance = std::max(sums_[channels_ + c] / count - mean * mean, 0.0);
    memory.mean[c] = static_cast<float>(mean);
    memory.inverse_deviation[c] = inverse_root(variance);
    drift(memory.running_mean[c],
          mean + (memory.bias.empty() ? 0.0 : double{memory.bias[static_cast<std::size_t>(c)]}));
    drift(memory.running_variance[c], variance * unbias);
  }
}

norm_loops::Terms NormSums::terms(const StepContext& step, const NormMemory& memory) {
  for (Index c = 0; c < channels_; ++c)
    factor_[c] = memory.gamma[c] *
                 (step.training ? memory.inverse_deviation[c] : inverse_root(double{memory.running_variance[c]}));
  const float* mean = (step.training ? memory.mean : memory.running_mean).data();
  if (!step.training && !memory.bias.empty()) {
    std::ranges::transform(memory.running_mean, memory.bias, mean_.begin(), std::minus());
    mean = mean_.data();
  }
  return {mean, factor_.data(), memory.beta.data()};
}

void NormSums::parameter_gradients(const NormMemory& memory, Span dgamma, Span dbeta) const {
  for (Index c = 0; c < channels_; ++c) {
    dbeta[c] = static_cast<float>(sums_[c]);
    dgamma[c] = static_cast<float>(sums_[channels_ + c] * memory.inverse_deviation[c]);
  }
}

norm_loops::DataTerms NormSums::data_terms(const StepContext& step, Index rows, const NormMemory& memory) {
  sums_.back() = static_cast<double>(rows);
  if (step.team_sum != nullptr) step.team_sum->sum(sums_);
  const double count = sums_.back();
  for (Index c = 0; c < channels_; ++c) {
    const double inverse = memory.inverse_deviation[c];
    offset_[c] = static_cast<float>(sums_[c] / count);
    slope_[c] = static_cast<float>(sums_[channels_ + c] / count * inverse * inverse);
  }
  return {factor_.data(), ones_.data(), offset_.data(), slope_.data()};
}

namespace {

/// Some rows of a matrix.
struct Rows {
  Index first, last, channels;
};
/// Adds the sums of dy and of dy * (x - mean) to sums[2 * channels]. All in double: the features of flat layers are
/// few, and where one hardly varies, what rounding leaves of its gradient meets a large inverse deviation.
void add_gradients(const Rows& rows, const float* x_all, const float* dy_all, const float* mean, double* sums) {
  const Index channels = rows.channels, together = std::max<Index>(1, 4096 / channels);  // rows that the L1 cache holds
  double* const products = sums + channels;
  const auto wide = [](double* p) -> EightDoubles& { return *reinterpret_cast<EightDoubles*>(p); };
  vectorised([&] {
    for (Index first = rows.first; first < rows.last; first += together) {
      const Index last = std::min(first + together, rows.last);
      for_channels(
          channels,
          [&](Index c) {
            EightDoubles sum = wide(sums + c), product = wide(products + c);  // in registers over the rows
            for (Index i = first * channels + c; i < last * channels; i += channels) {
              const auto gradient = __builtin_convertvector(eight(dy_all + i), EightDoubles);
              sum += gradient;
              product += gradient * __builtin_convertvector(eight(x_all + i) - eight(mean + c), EightDoubles);
            }
            wide(sums + c) = sum, wide(products + c) = product;
          },
          [&](Index c) {
            for (Index i = first * channels + c; i < last * channels; i += channels) {
              sums[c] += double{dy_all[i]};
              products[c] += double{dy_all[i]} * double{x_all[i] - mean[c]};
            }
          });
    }
  });
}

/// Batch norm alone: its rows are a line without pooling.
class Norm final : public NormOp {
 public:
  explicit Norm(const NormSettings& settings) : loops_(norm_kernels()), channels_(settings.channels), sums_(settings) {}

  bool accepts_slices() const override { return true; }
  void forward(const StepContext& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    if (step.training) sums_.update_statistics(step, x.data, memory);
    const norm_loops::Terms terms = sums_.terms(step, memory);
    const bool stream = streams(y);
    share_out(std::ssize(x.data) / channels_, sums_.threads(), [&](Index first, Index last, int) {
      const float* const from = x.data.data() + first * channels_;
      loops_.forward(line(last - first, y.stride(), stream), terms, &from, 1, y.data.data() + first * y.stride());
    });
  }

  void backward(const StepContext& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                Span dbeta, Tensor dx) override {
    const Index rows = std::ssize(x.data) / channels_;
    const norm_loops::Terms terms = sums_.terms(step, memory);
    sums_.add_up(rows, [&](Index first, Index last, double* sums) {
      add_gradients({first, last, channels_}, x.data.data(), dy.data.data(), memory.mean.data(), sums);
    });
    sums_.parameter_gradients(memory, dgamma, dbeta);
    if (dx.data.empty()) return;
    const norm_loops::DataTerms data = sums_.data_terms(step, rows, memory);
    const bool stream = streams(dx);
    share_out(rows, sums_.threads(), [&](Index first, Index last, int) {
      const Index at = first * channels_;
      loops_.data(line(last - first, channels_, stream), terms, data, x.data.data() + at, dy.data.data() + at,
                  dx.data.data() + at);
    });
  }

 private:
  norm_loops::Line line(Index rows, Index y_stride, bool stream) const {
    return {rows, channels_, 1, rows, 1.0F, 1.0F, y_stride, stream};
  }

  const norm_loops::Kernels& loops_;
  Index channels_;
  NormSums sums_;
};

}  // namespace

std::unique_ptr<NormOp> CpuBackend::norm(const NormSettings& settings, Index) {
  return std::make_unique<Norm>(settings);
}

namespace {

/// Batch norm, ReLU or leaky ReLU, and average pooling in one pass over x. Backward recomputes the values in between.
class NormActivatePool final : public NormOp {
 public:
  explicit NormActivatePool(const NormReluPool& settings) : passes_(settings) {}

  bool accepts_slices() const override { return true; }
  void forward(const StepContext& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    NormSums& sums = passes_.sums();
    if (step.training) sums.update_statistics(step, x.data, memory);
    passes_.forward(sums.terms(step, memory), x, {}, y);
  }

  void backward(const StepContext& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                Span dbeta, Tensor dx) override {
    NormSums& sums = passes_.sums();
    NormGradient gradient{sums.terms(step, memory), {}, x, dy};
    passes_.add_gradients(gradient);
    sums.parameter_gradients(memory, dgamma, dbeta);
    if (dx.data.empty()) return;
    gradient.data = sums.data_terms(step, std::ssize(x.data) / x.shape.channels, memory);
    passes_.data_gradient(gradient, dx);
  }

 private:
  NormPasses passes_;
};

}  // namespace

// Null for windows over more lines of input than the loops take.
std::unique_ptr<NormOp> CpuBackend::norm_relu_pool(const NormReluPool& settings, Index) {
  if (!NormPasses::serve(settings)) return nullptr;
  return std::make_unique<NormActivatePool>(settings);
}

// Local contrast normalisation in three passes over x, and three of its gradient: sums over channels make one number of
// each position, and sums over windows are of these. Threads share out lines of positions.

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
    // The gradient of x - mean: the squares' part is second * (x - mean); the other part with it gives the mean's.
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
