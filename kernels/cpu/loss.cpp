// Losses. Positions of a sample are cut into blocks of a fixed size, which threads share and whose sums are added in
// one order: the number of threads changes no bit.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/backend.hpp"
#include "kernels/formulas.hpp"

namespace mrmf::cpu {
namespace {

constexpr Index kBlock = 4096;  // positions

struct Geometry {
  Index positions, channels, target_channels;

  Geometry(const Shape& output, Index target)
      : positions(product(output.spatial)), channels(output.channels), target_channels(target) {}
  Index blocks() const { return (positions + kBlock - 1) / kBlock; }
};

/// Calls work(row, block, first position, positions) for every block of every row, on all threads.
template <class Work>
void for_loss_blocks(const Geometry& g, Index rows, const Work& work) {
#pragma omp parallel for schedule(static) if (rows * g.positions * g.channels > kBlock)
  for (Index i = 0; i < rows * g.blocks(); ++i) {
    const Index block = i % g.blocks(), first = block * kBlock;
    work(i / g.blocks(), block, first, std::min(kBlock, g.positions - first));
  }
}

/// The loss of numbers: the mean over all of a sample's.
class ErrorOp final : public LossOp {
 public:
  ErrorOp(const LossSettings& settings, const Shape& output)
      : loss_(ErrorLoss::of(settings)), fields_(output.axes > 0), geometry_(output, output.channels) {
    if (fields_) sums_.resize(static_cast<std::size_t>(output.n * geometry_.blocks()));
  }

  void run(const StepContext& step, ConstTensor y, ConstTensor target, Span dy, Span sum) override {
    const auto outputs = static_cast<double>(y.shape.per_sample());
    const double share = step.share, scale = share * step.loss_weight / outputs;
    const auto range = [&](Index first, Index count) {
      double total = 0;
      for (Index i = first; i < first + count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double error = double{y.data[at]} - target.data[at];
        total += loss_.value(error);
        if (!dy.empty()) dy[at] = static_cast<float>(scale * loss_.slope(error));
      }
      return total;
    };
    sum[0] = static_cast<float>(share * (fields_ ? by_blocks(y.shape, range) : range(0, y.shape.count())) / outputs);
  }

 private:
  // A network without positions has few outputs, so one thread does it.
  template <class Of>
  double by_blocks(const Shape& shape, const Of& of) {
    const Index channels = geometry_.channels;
    for_loss_blocks(geometry_, shape.n, [&](Index row, Index block, Index first, Index count) {
      sums_[static_cast<std::size_t>(row * geometry_.blocks() + block)] =
          of((row * geometry_.positions + first) * channels, count * channels);
    });
    double total = 0;
    for (Index i = 0; i < shape.n * geometry_.blocks(); ++i) total += sums_[static_cast<std::size_t>(i)];
    return total;
  }

  ErrorLoss loss_;
  bool fields_;
  Geometry geometry_;
  std::vector<double> sums_;  // sums of blocks
};

/// Sums over a block's positions.
struct Sums {
  double counted = 0, entropy = 0;
};
/// The sums of one class, for dice only.
struct ClassSums {
  double both = 0, predicted_and_labelled = 0;
};

/// What a sample's sums make of the gradient at each of its positions.
struct Slopes {
  double entropy = 0;            ///< slope of the weighted cross-entropy of one position
  std::vector<double> by_label;  ///< dice by probability, per class: by_label * label + by_counted
  std::vector<double> by_counted;
};

/// Losses of probabilities: cross-entropies and dice. A first pass makes probabilities (in dy) and sums, a second the
/// gradient.
class ProbabilityOp final : public LossOp {
 public:
  ProbabilityOp(const LossSettings& settings, const Shape& output, Index target_channels)
      : settings_(settings),
        classes_(settings.task() == Task::classes),
        entropy_(settings.weight(classes_ ? LossKind::cross_entropy : LossKind::binary_cross_entropy)),
        dice_(settings.weight(LossKind::dice)),
        focal_{settings.gamma},
        geometry_(output, target_channels),
        weights_(settings.class_weights) {
    const auto blocks = static_cast<std::size_t>(output.n * geometry_.blocks());
    const auto channels = static_cast<std::size_t>(geometry_.channels);
    weights_.resize(channels, 1.0F);
    for (const float weight : weights_) all_weights_ += weight;
    sums_.resize(blocks);
    if (dice_ > 0) class_sums_.resize(blocks * channels);
    for (Index row = 0; row < output.n; ++row)
      slopes_.push_back({0, std::vector<double>(channels), std::vector<double>(channels)});
    scratch_.resize(blocks * channels);
    totals_.resize(static_cast<std::size_t>(output.n * per_row()));
  }

  void run(const StepContext& step, ConstTensor y, ConstTensor target, Span dy, Span sum) override {
    const Geometry& g = geometry_;
    for_loss_blocks(g, y.shape.n, [&](Index row, Index block, Index first, Index count) {
      const Index at = row * g.positions + first, index = row * g.blocks() + block;
      float* const p = dy.empty() ? nullptr : dy.data() + at * g.channels;
      add_block(y.data.data() + at * g.channels, target.data.data() + at * g.target_channels, p, count, index);
    });
    for (Index row = 0; row < y.shape.n; ++row) add_blocks(row);
    if (step.sample_sum != nullptr)
      step.sample_sum->sum(std::span(totals_).first(static_cast<std::size_t>(y.shape.n * per_row())));
    const double weight = step.sample_sum != nullptr ? step.loss_weight : step.share * step.loss_weight;
    double total = 0;
    for (Index row = 0; row < y.shape.n; ++row) total += finish(row, weight);
    sum[0] = static_cast<float>(step.share * total);
    if (dy.empty()) return;
    for_loss_blocks(g, y.shape.n, [&](Index row, Index, Index first, Index count) {
      const Index at = row * g.positions + first;
      const Slopes& slopes = slopes_[static_cast<std::size_t>(row)];
      for (Index i = at; i < at + count; ++i)
        to_gradient(target.data.data() + i * g.target_channels, slopes, dy.data() + i * g.channels);
    });
  }

 private:
  // Sums over a block's positions; their probabilities, unless p is null.
  void add_block(const float* y, const float* target, float* p, Index count, Index index) {
    const Index channels = geometry_.channels;
    Sums& sums = sums_[static_cast<std::size_t>(index)] = {};
    ClassSums* const by_class = dice_ > 0 ? class_sums_.data() + index * channels : nullptr;
    if (by_class != nullptr) std::fill_n(by_class, channels, ClassSums{});
    float* const kept = scratch_.data() + index * channels;
    for (Index i = 0; i < count; ++i) {
      float* const here = p != nullptr ? p + i * channels : kept;
      const float* const label = target + i * geometry_.target_channels;
      if (classes_)
        add_softmax(y + i * channels, {label, geometry_.target_channels}, here, sums, by_class);
      else
        add_sigmoids(y + i * channels, label, here, sums, by_class);
    }
  }

  void add_softmax(const float* y, ClassTarget target, float* p, Sums& sums, ClassSums* by_class) const {
    const Index channels = geometry_.channels;
    float most = y[0], exps = 0;
    for (Index c = 1; c < channels; ++c) most = std::max(most, y[c]);
    for (Index c = 0; c < channels; ++c) exps += p[c] = std::exp(y[c] - most);
    for (Index c = 0; c < channels; ++c) p[c] /= exps;
    const float counted = target.counted();
    sums.counted += counted;
    if (counted == 0) return;
    const float logarithm = most + std::log(exps);
    if (target.channels == 1) {
      const Index c = target.number();
      sums.entropy += focal_factor(p[c]) * weights_[static_cast<std::size_t>(c)] * (logarithm - y[c]);
    } else {
      for (Index c = 0; c < channels; ++c)
        if (target.at[c] > 0)
          sums.entropy +=
              focal_factor(p[c]) * weights_[static_cast<std::size_t>(c)] * target.at[c] * (logarithm - y[c]);
    }
    for (Index c = 0; by_class != nullptr && c < channels; ++c) {
      const float share = target.share(c);
      by_class[c].both += p[c] * share;
      by_class[c].predicted_and_labelled += counted * p[c] + share;
    }
  }

  float focal_factor(float p) const { return focal_.plain() ? 1.0F : focal_.factor(p); }
  float binary_entropy(float y, float t, float p) const {
    if (focal_.plain()) return binary_cross_entropy(y, t);
    return t * focal_.factor(p) * binary_cross_entropy(y, 1.0F) +
           (1 - t) * focal_.factor(1 - p) * binary_cross_entropy(y, 0.0F);
  }

  void add_sigmoids(const float* y, const float* t, float* p, Sums& sums, ClassSums* by_class) const {
    for (Index c = 0; c < geometry_.channels; ++c) {
      p[c] = sigmoid(y[c]);
      if (t[c] < 0) continue;
      sums.counted += 1;
      sums.entropy += weights_[static_cast<std::size_t>(c)] * binary_entropy(y[c], t[c], p[c]);
      if (by_class == nullptr) continue;
      by_class[c].both += p[c] * t[c];
      by_class[c].predicted_and_labelled += p[c] + t[c];
    }
  }

  // A row's totals: what counts and its entropy, then two sums per class, where there is dice.
  Index per_row() const { return 2 + (dice_ > 0 ? 2 * geometry_.channels : 0); }

  void add_blocks(Index row) {
    const Index first = row * geometry_.blocks(), channels = geometry_.channels;
    double* const totals = totals_.data() + row * per_row();
    std::fill_n(totals, per_row(), 0.0);
    for (Index block = first; block < first + geometry_.blocks(); ++block) {
      totals[0] += sums_[static_cast<std::size_t>(block)].counted;
      totals[1] += sums_[static_cast<std::size_t>(block)].entropy;
      for (Index c = 0; dice_ > 0 && c < channels; ++c) {
        const ClassSums& part = class_sums_[static_cast<std::size_t>(block * channels + c)];
        totals[2 + 2 * c] += part.both;
        totals[3 + 2 * c] += part.predicted_and_labelled;
      }
    }
  }

  // A sample's loss, and its slopes.
  double finish(Index row, double weight) {
    const Index channels = geometry_.channels;
    Slopes& slopes = slopes_[static_cast<std::size_t>(row)];
    const double* const totals = totals_.data() + row * per_row();
    const Sums all{totals[0], totals[1]};
    slopes.entropy = all.counted > 0 ? weight * entropy_ / all.counted : 0;
    double loss = all.counted > 0 && entropy_ > 0 ? entropy_ * all.entropy / all.counted : 0;
    if (dice_ == 0) return loss;
    double overlaps = 0;
    for (Index c = 0; c < channels; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const Overlap overlap = Overlap::of(totals[2 + 2 * c], totals[3 + 2 * c], settings_.smooth);
      const double share = weights_[at] / all_weights_;
      overlaps += share * overlap.value;
      slopes.by_label[at] = -weight * dice_ * share * overlap.by_label;
      slopes.by_counted[at] = -weight * dice_ * share * overlap.by_counted;
    }
    return loss + dice_ * (1 - overlaps);
  }

  // Probabilities of one position become the gradient.
  void to_gradient(const float* target, const Slopes& slopes, float* p) const {
    if (classes_)
      softmax_gradient({target, geometry_.target_channels}, slopes, p);
    else
      sigmoid_gradient(target, slopes, p);
  }

  void softmax_gradient(ClassTarget target, const Slopes& slopes, float* p) const {
    const Index channels = geometry_.channels;
    const double counted = target.counted();
    const auto by_probability = [&](Index c) {
      const auto at = static_cast<std::size_t>(c);
      return slopes.by_label[at] * target.share(c) + slopes.by_counted[at] * counted;
    };
    if (!focal_.plain()) return focal_gradient(target, slopes, by_probability, p);
    double weights = 0, mean = 0;
    for (Index c = 0; c < channels; ++c) {
      weights += weights_[static_cast<std::size_t>(c)] * target.share(c);
      if (dice_ > 0) mean += p[c] * by_probability(c);
    }
    for (Index c = 0; c < channels; ++c) {
      double slope =
          slopes.entropy * (weights * p[c] - double{weights_[static_cast<std::size_t>(c)]} * target.share(c));
      if (dice_ > 0) slope += p[c] * (by_probability(c) - mean);
      p[c] = static_cast<float>(slope);
    }
  }

  template <class ByProbability>
  void focal_gradient(ClassTarget target, const Slopes& slopes, const ByProbability& by_probability, float* p) const {
    double mean = 0;
    const auto slope_of = [&](Index c) {
      const double share = target.share(c), weight = weights_[static_cast<std::size_t>(c)];
      const double entropy = share > 0 ? slopes.entropy * weight * share * focal_.slope(double{p[c]}) : 0;
      return entropy + (dice_ > 0 ? p[c] * by_probability(c) : 0);
    };
    for (Index c = 0; c < geometry_.channels; ++c) mean += slope_of(c);
    for (Index c = 0; c < geometry_.channels; ++c) {
      const double probability = p[c];
      // Each slope reads its own probability alone.
      p[c] = static_cast<float>(slope_of(c) - probability * mean);
    }
  }

  void sigmoid_gradient(const float* t, const Slopes& slopes, float* p) const {
    for (Index c = 0; c < geometry_.channels; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const double probability = p[c];
      double slope = slopes.entropy * weights_[at] * entropy_slope(probability, t[c]);
      if (dice_ > 0) slope += probability * (1 - probability) * (slopes.by_label[at] * t[c] + slopes.by_counted[at]);
      p[c] = static_cast<float>(t[c] < 0 ? 0 : slope);
    }
  }

  double entropy_slope(double p, double t) const {
    if (focal_.plain()) return p - t;
    return t * focal_.slope(p) * (1 - p) - (1 - t) * focal_.slope(1 - p) * p;
  }

  LossSettings settings_;
  bool classes_;
  double entropy_, dice_;  // weights of the kinds
  Focal focal_;
  Geometry geometry_;
  std::vector<float> weights_;  // weights of classes
  double all_weights_ = 0;
  std::vector<Sums> sums_;             // sums of blocks
  std::vector<ClassSums> class_sums_;  // class sums of blocks, per class
  std::vector<Slopes> slopes_;         // slopes of rows
  std::vector<float> scratch_;         // a position's probabilities, for every block
  std::vector<double> totals_;         // each row's sums over the blocks, and over the ranks that share the sample
};

}  // namespace

std::unique_ptr<LossOp> CpuBackend::loss(const LossSettings& settings, const Shape& output, Index target_channels) {
  check_loss(settings, output, target_channels);
  if (settings.task() == Task::regression) return std::make_unique<ErrorOp>(settings, output);
  return std::make_unique<ProbabilityOp>(settings, output, target_channels);
}

}  // namespace mrmf::cpu
