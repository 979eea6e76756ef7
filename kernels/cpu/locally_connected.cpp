// Locally connected layers: a small matrix product for every output position (local_products.inl). And the penalty and
// the constraint of reconstruction ICA, which is made of them.
//
// The input under a position is copied part by part, each of a few kernel rows, so that the rows of the batch lie side
// by side in the cache. Threads share out the output positions, and with them the weights. In the gradient of the
// input, where fields overlap, they share out the input instead: a thread computes the part of every field that lies in
// its band of positions. So no two write the same place, weights are read once, and results do not depend on the number
// of threads.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/sgd_range.hpp"
#include "kernels/cpu/vector_kernels.hpp"
#include "kernels/formulas.hpp"

namespace mrmf::cpu {
namespace {

const local::Kernels& local_kernels() {
  switch (instruction_set()) {
    case InstructionSet::avx512: return *local::avx512_kernels();
    case InstructionSet::avx2: return *local::avx2_kernels();
    case InstructionSet::generic: break;
  }
  return *local::generic_kernels();
}

/// Kernel rows [first, end) of a field, of which each is a run of the input.
struct Part {
  Index first, end;
};

/// The place of an output position's field.
struct Field {
  Index position;  ///< number of the output position
  Extent first;    ///< its first input position
};

class LocallyConnected final : public LocallyConnectedOp {
 public:
  LocallyConnected(const ConvGeometry& geometry, Index max_rows)
      : kernels_(local_kernels()),
        g_(geometry),
        out_(geometry.out()),
        features_(geometry.out_channels),
        run_(geometry.kernel[2] * geometry.in_channels),
        runs_(geometry.kernel[0] * geometry.kernel[1]),
        depth_(run_ * runs_),
        max_rows_(max_rows) {
    constexpr Index cached = 65536, least = 256;  // floats of a part: all rows' in the L2 cache, and in any case
    const Index most = std::max(least, cached / std::max<Index>(1, max_rows));
    part_ = std::clamp<Index>(most / run_, 1, runs_);
    const Index lanes = kernels_.lanes;
    pitch_ = ((part_ * run_ + lanes - 1) / lanes + 1) * lanes;  // one more, so that rows do not share a cache set
    while (axis_ < 2 && g_.in[axis_] == 1) ++axis_;
    met_.assign(static_cast<std::size_t>(g_.in[axis_]) + 1, 0);
    for (Index o = 0; o < out_[axis_]; ++o)
      for (Index k = 0; k < g_.kernel[axis_]; ++k) ++met_[static_cast<std::size_t>(o * g_.stride[axis_] + k) + 1];
    for (std::size_t i = 1; i < met_.size(); ++i) met_[i] += met_[i - 1];
    for (Index run = 0; run < runs_; ++run) begins_.push_back(begin({0, {0, 0, 0}}, run));
    scratch_ = make_arena(omp_get_max_threads() * thread_floats());
  }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    for_each_position([&](const Field& field, Scratch& scratch) {
      const Index rows = x.shape.n, at = field.position * features_;
      for (Index n = 0; n < rows; ++n)
        for (Index f = 0; f < features_; ++f)
          scratch.y[n * features_ + f] = b.empty() ? 0.0F : b[static_cast<std::size_t>(at + f)];
      for_each_part([&](const Part& part) {
        copy_in(x, field, part, scratch.x);
        kernels_.outputs(product(rows, part), w.data() + first_weight(field, part.first), scratch.x, scratch.y);
      });
      for (Index n = 0; n < rows; ++n)
        std::copy_n(scratch.y + n * features_, features_, y.data.data() + n * outputs() + at);
    });
  }

  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
#pragma omp parallel
    {
      const Interval band = band_of(omp_get_thread_num(), omp_get_num_threads());
      Scratch scratch = scratch_of(omp_get_thread_num());
      clear(band, dx);
      for (Index p = 0; p < product(out_); ++p) {
        const Field field = field_of(p);
        const Index first = std::max<Index>(0, band.first - field.first[axis_]);
        const Index end = std::min(g_.kernel[axis_], band.end - field.first[axis_]);
        if (first >= end) continue;
        copy_gradient(dy, field, scratch.y);
        add_gradient(field, first, end, w, scratch, dx);
      }
    }
  }

  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override { gradient(x, dy, false, dw, db); }
  void accumulate_weight_gradient(ConstTensor x, ConstTensor dy, Span dw) override { gradient(x, dy, true, dw, {}); }

  // A part's gradient is made in the thread's memory, and is gone when its weights have moved.
  void update(const StepContext& step, const GradientProduct& first, const GradientProduct* second,
              const UntiedWeights& weights) override {
    if (updates_.span().empty()) updates_ = make_arena(omp_get_max_threads() * update_floats());
    for_each_position([&](const Field& field, Scratch& scratch) {
      float* const dw = updates_.span().data() + omp_get_thread_num() * update_floats();
      for_each_part([&](const Part& part) {
        const Index floats = (part.end - part.first) * run_;
        for (const GradientProduct* one : {&first, second}) {
          if (one == nullptr) continue;
          copy_gradient(one->dy, field, scratch.y);
          if (one == &first && part.first == 0) update_biases(step, first.dy.shape.n, field, scratch.y, weights);
          copy_in(one->x, field, part, scratch.x);
          local::Product of = product(one->x.shape.n, part);
          of.w_pitch = floats;
          kernels_.weights(of, {.scale = 1, .add = one == second}, scratch.x, scratch.y, dw);
        }
        const Index at = first_weight(field, part.first);
        float* const velocity = weights.w_velocity.empty() ? nullptr : weights.w_velocity.data() + at;
        vectorised([&, w = weights.w.data() + at] {
          for (Index f = 0; f < features_; ++f)
            sgd_range(step.sgd, w + f * depth_, dw + f * floats, velocity == nullptr ? nullptr : velocity + f * depth_,
                      floats);
        });
      });
    });
  }

 private:
  void gradient(ConstTensor x, ConstTensor dy, bool add, Span dw, Span db) {
    for_each_position([&](const Field& field, Scratch& scratch) {
      const Index rows = x.shape.n;
      copy_gradient(dy, field, scratch.y);
      for (Index f = 0; f < features_ && !db.empty(); ++f)
        db[static_cast<std::size_t>(field.position * features_ + f)] = sum_of(rows, scratch.y + f);
      for_each_part([&](const Part& part) {
        copy_in(x, field, part, scratch.x);
        kernels_.weights(product(rows, part), {.scale = 1, .add = add}, scratch.x, scratch.y,
                         dw.data() + first_weight(field, part.first));
      });
    });
  }

  float sum_of(Index rows, const float* gradient) const {
    float sum = 0;
    for (Index n = 0; n < rows; ++n) sum += gradient[n * features_];
    return sum;
  }
  void update_biases(const StepContext& step, Index rows, const Field& field, const float* gradient,
                     const UntiedWeights& weights) const {
    if (weights.b.empty()) return;
    const Index first = field.position * features_;
    for (Index f = 0; f < features_; ++f) {
      const float db = sum_of(rows, gradient + f);
      float* const velocity = weights.b_velocity.empty() ? nullptr : weights.b_velocity.data() + first + f;
      vectorised([&, b = weights.b.data() + first + f] { sgd_range(step.sgd, b, &db, velocity, 1); });
    }
  }

  struct Interval {
    Index first, end;
  };
  /// One thread's memory: a part of the rows' fields, and one position's outputs or their gradient.
  struct Scratch {
    float *x, *y;
  };

  static Index product(const Extent& e) { return mrmf::product(e); }
  local::Product product(Index rows, const Part& part) const {
    return {rows, features_, (part.end - part.first) * run_, depth_, pitch_, false};
  }
  Index outputs() const { return product(out_) * features_; }
  Index inputs() const { return product(g_.in) * g_.in_channels; }

  Index field_floats() const { return std::max(max_rows_ * pitch_, std::min(kFewRows, max_rows_) * depth_); }
  Index thread_floats() const { return (field_floats() + max_rows_ * features_ + 15) / 16 * 16; }
  Index update_floats() const { return (part_ * run_ * features_ + 15) / 16 * 16; }
  Scratch scratch_of(int thread) {
    float* const first = scratch_.span().data() + thread * thread_floats();
    return {first, first + field_floats()};
  }

  Field field_of(Index p) const {
    const Index i = p / (out_[1] * out_[2]), j = p / out_[2] % out_[1], k = p % out_[2];
    return {p, {i * g_.stride[0], j * g_.stride[1], k * g_.stride[2]}};
  }
  template <class Use>
  void for_each_position(const Use& use) {
#pragma omp parallel
    {
      Scratch scratch = scratch_of(omp_get_thread_num());
#pragma omp for schedule(static)
      for (Index p = 0; p < product(out_); ++p) use(field_of(p), scratch);
    }
  }
  template <class Use>
  void for_each_part(const Use& use) const {
    for (Index first = 0; first < runs_; first += part_) use(Part{first, std::min(runs_, first + part_)});
  }
  /// Where the first feature's weights of a part are.
  Index first_weight(const Field& field, Index run) const { return field.position * features_ * depth_ + run * run_; }

  /// Where kernel row `run` of a field begins in a sample.
  Index begin(const Field& field, Index run) const {
    const Index i = field.first[0] + run / g_.kernel[1], j = field.first[1] + run % g_.kernel[1];
    return ((i * g_.in[1] + j) * g_.in[2] + field.first[2]) * g_.in_channels;
  }
  /// A part of every row's field.
  void copy_in(ConstTensor x, const Field& field, const Part& part, float* to) const {
    kernels_.copy({.rows = x.shape.n,
                   .count = part.end - part.first,
                   .floats = run_,
                   .begins = begins_.data() + part.first,
                   .x_pitch = inputs(),
                   .to_pitch = pitch_},
                  x.data.data() + begin(field, 0), to);
  }
  void copy_gradient(ConstTensor dy, const Field& field, float* to) const {
    for (Index n = 0; n < dy.shape.n; ++n)
      std::copy_n(dy.data.data() + n * outputs() + field.position * features_, features_, to + n * features_);
  }

  /// A thread's share of the input's positions along the first axis that has several: as many fields meet each.
  Interval band_of(int thread, int threads) const {
    const auto cut = [&](int number) -> Index {
      if (number == threads) return g_.in[axis_];
      return std::ranges::lower_bound(met_, met_.back() * number / threads) - met_.begin();
    };
    return {cut(thread), cut(thread + 1)};
  }
  void clear(const Interval& band, Tensor dx) const {
    Index line = g_.in_channels;
    for (std::size_t a = axis_ + 1; a < 3; ++a) line *= g_.in[a];
    for (Index n = 0; n < dx.shape.n; ++n)
      std::fill_n(dx.data.data() + n * inputs() + band.first * line, (band.end - band.first) * line, 0.0F);
  }
  /// Adds the kernel's positions [first, end) along axis_ of a field's gradient to dx: run by run or, of few rows,
  /// where reading weights takes the time, all together by way of memory of their own.
  void add_gradient(const Field& field, Index first, Index end, ConstSpan w, const Scratch& scratch, Tensor dx) const {
    const Index each = depth_ / g_.kernel[axis_], from = first * each, floats = (end - first) * each;
    const Index run_floats = std::min(run_, floats), rows = dx.shape.n;
    const float* const weights = w.data() + first_weight(field, 0);
    local::Product product{rows, features_, floats, depth_, depth_, field.position + 1 < mrmf::product(out_)};
    if (rows < kFewRows) {
      std::fill_n(scratch.x, rows * depth_, 0.0F);
      kernels_.inputs(product, weights + from, scratch.y, scratch.x);
    } else {
      product.depth = run_floats, product.x_pitch = inputs();
    }
    for (Index at = from; at < from + floats; at += run_floats) {
      float* const to = dx.data.data() + begin(field, at / run_) + at % run_;
      if (rows < kFewRows)
        add(scratch.x + at - from, {rows, run_floats}, to);
      else
        kernels_.inputs(product, weights + at, scratch.y, to);
    }
  }
  struct Run {
    Index rows, floats;
  };
  void add(const float* x, const Run& run, float* dx) const {
    for (Index n = 0; n < run.rows; ++n)
#pragma omp simd
      for (Index i = 0; i < run.floats; ++i) dx[n * inputs() + i] += x[n * depth_ + i];
  }

  static constexpr Index kFewRows = 4;
  const local::Kernels& kernels_;
  ConvGeometry g_;
  Extent out_;
  Index features_;
  Index run_, runs_, depth_;  // floats of a kernel row, kernel rows, floats of a field
  Index max_rows_;
  Index part_ = 1, pitch_ = 0;  // kernel rows of a part; floats from one row's to the next's
  std::size_t axis_ = 0;        // the first with several input positions
  std::vector<Index> met_;      // along it: how often fields meet the positions before each
  std::vector<Index> begins_;   // of kernel rows, in a sample, from the field's first position on
  Arena scratch_, updates_;     // updates_: empty before the first
};

}  // namespace

std::unique_ptr<LocallyConnectedOp> CpuBackend::locally_connected(const ConvGeometry& geometry, Index max_rows) {
  return std::make_unique<LocallyConnected>(geometry, max_rows);
}

void CpuBackend::add_sparsity(const StepContext& step, const SparsitySettings& settings, ConstTensor x, Tensor dx) {
  const float factor = settings.weight * step.loss_weight;
  const Index groups = std::ssize(x.data) / settings.pooled;
#pragma omp parallel for schedule(static)
  for (Index group = 0; group < groups; ++group)
    add_sparsity_of_group(settings, factor, x.data.data() + group * settings.pooled,
                          dx.data.data() + group * settings.pooled);
}

void CpuBackend::scale_rows(Span w, Index count, float length) {
  const Index rows = std::ssize(w) / count;
#pragma omp parallel for schedule(static)
  for (Index r = 0; r < rows; ++r)
    vectorised([row = w.data() + r * count, count, length] {
      float squares = 0;
#pragma omp simd reduction(+ : squares)
      for (Index i = 0; i < count; ++i) squares += row[i] * row[i];
      const float factor = squares > 0 ? length / std::sqrt(squares) : 1;
      for (Index i = 0; i < count; ++i) row[i] *= factor;
    });
}

}  // namespace mrmf::cpu
