// Losses, each sample's by itself, as docs/losses.md writes them.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/formulas.hpp"
#include "kernels/reference/backend.hpp"

namespace mrmf::reference {
namespace {

/// One sample: positions x channels of outputs, and its targets.
struct Sample {
  const float* y;
  const float* target;
  Index positions, channels, target_channels;
  double weight;          ///< weight of the sample's loss in the gradient
  AllReduce* sample_sum;  ///< null: these are all positions

  /// A sum over positions, of all ranks that share the sample.
  double total(double sum) const {
    if (sample_sum != nullptr) sample_sum->sum({&sum, 1});
    return sum;
  }
  double output(Index p, Index c) const { return y[p * channels + c]; }
};

/// A loss, and the slope of its weighted value by every output, both added up from kinds.
struct Result {
  double loss = 0;
  std::vector<double> slope;
};

// The mean over all numbers of the sample.
void add_errors(const ErrorLoss& loss, const Sample& sample, Result& result) {
  const Index count = sample.positions * sample.channels;
  const double all = sample.total(static_cast<double>(count)), share = sample.weight / all;
  double sum = 0;
  for (Index i = 0; i < count; ++i) {
    const double error = double{sample.y[i]} - sample.target[i];
    sum += loss.value(error);
    result.slope[i] += share * loss.slope(error);
  }
  result.loss += sample.total(sum) / all;
}

/// Probabilities p and labels t of all outputs of a sample, and how much of each counts.
struct Probabilities {
  std::vector<double> p, t, counted;
};

Probabilities softmax(const Sample& s) {
  Probabilities all;
  for (Index position = 0; position < s.positions; ++position) {
    const ClassTarget target{s.target + position * s.target_channels, s.target_channels};
    double most = s.output(position, 0), sum = 0;
    for (Index c = 1; c < s.channels; ++c) most = std::max(most, s.output(position, c));
    for (Index c = 0; c < s.channels; ++c) sum += std::exp(s.output(position, c) - most);
    for (Index c = 0; c < s.channels; ++c) {
      all.p.push_back(std::exp(s.output(position, c) - most) / sum);
      all.t.push_back(target.share(c));
      all.counted.push_back(target.counted());
    }
  }
  return all;
}

Probabilities sigmoids(const Sample& s) {
  Probabilities all;
  for (Index i = 0; i < s.positions * s.channels; ++i) {
    const bool counts = !(s.target[i] < 0);
    all.p.push_back(sigmoid(double{s.y[i]}));
    all.t.push_back(counts ? s.target[i] : 0);
    all.counted.push_back(counts ? 1 : 0);
  }
  return all;
}

/// A loss of probabilities.
class ProbabilityLoss {
 public:
  explicit ProbabilityLoss(const LossSettings& settings) : settings_(settings) {}

  // Log-sum-exp less the output of the class: a mean over the positions that count, weighted by class.
  void add_cross_entropy(const Sample& s, const Probabilities& all, Result& result) const {
    const double weight = settings_.weight(LossKind::cross_entropy);
    double counted = 0, sum = 0;
    for (const double t : all.t) counted += t;
    counted = s.total(counted);
    if (weight == 0 || counted == 0) return;
    for (Index position = 0; position < s.positions; ++position) {
      double most = s.output(position, 0), exps = 0, weights = 0;
      for (Index c = 1; c < s.channels; ++c) most = std::max(most, s.output(position, c));
      for (Index c = 0; c < s.channels; ++c) exps += std::exp(s.output(position, c) - most);
      for (Index c = 0; c < s.channels; ++c) {
        const double share = class_weight(c) * all.t[position * s.channels + c];
        const double p = all.p[position * s.channels + c];
        if (share > 0) sum += share * focal().factor(p) * (most + std::log(exps) - s.output(position, c));
        weights -= share * focal().slope(p);
      }
      for (Index c = 0; c < s.channels; ++c) {
        const Index i = position * s.channels + c;
        const double own = class_weight(c) * all.t[i] * focal().slope(all.p[i]);
        result.slope[i] += s.weight * weight / counted * (weights * all.p[i] + own);
      }
    }
    result.loss += weight * s.total(sum) / counted;
  }

  void add_binary(const Sample& s, const Probabilities& all, Result& result) const {
    const double weight = settings_.weight(LossKind::binary_cross_entropy);
    double counted = 0, sum = 0;
    for (const double one : all.counted) counted += one;
    counted = s.total(counted);
    if (weight == 0 || counted == 0) return;
    for (std::size_t i = 0; i < all.p.size(); ++i) {
      const double share = all.counted[i] * class_weight(static_cast<Index>(i) % s.channels);
      const double p = all.p[i], t = all.t[i];
      if (share > 0 && focal().plain()) sum += share * binary_cross_entropy(double{s.y[i]}, t);
      if (share > 0 && !focal().plain())
        sum += share * (t * focal().factor(p) * binary_cross_entropy(double{s.y[i]}, 1.0) +
                        (1 - t) * focal().factor(1 - p) * binary_cross_entropy(double{s.y[i]}, 0.0));
      const double slope = t * focal().slope(p) * (1 - p) - (1 - t) * focal().slope(1 - p) * p;
      result.slope[i] += s.weight * weight / counted * share * slope;
    }
    result.loss += weight * s.total(sum) / counted;
  }

  // 1 less the mean over classes of their overlap, weighted by class.
  void add_dice(const Sample& s, const Probabilities& all, Result& result) const {
    const double weight = settings_.weight(LossKind::dice);
    if (weight == 0) return;
    double weights = 0, mean = 0;
    for (Index c = 0; c < s.channels; ++c) weights += class_weight(c);
    std::vector<double> by_probability(all.p.size());
    for (Index c = 0; c < s.channels; ++c) {
      double both = 0, sums = 0;
      for (Index i = c; i < std::ssize(all.p); i += s.channels) {
        both += all.p[i] * all.t[i];
        sums += all.counted[i] * all.p[i] + all.t[i];
      }
      const Overlap overlap = Overlap::of(s.total(both), s.total(sums), settings_.smooth);
      const double share = class_weight(c) / weights;
      mean += share * overlap.value;
      for (Index i = c; i < std::ssize(all.p); i += s.channels)
        by_probability[i] =
            -s.weight * weight * share * (overlap.by_label * all.t[i] + overlap.by_counted * all.counted[i]);
    }
    result.loss += weight * (1 - mean);
    add_slopes(s, all, by_probability, result);
  }

 private:
  Focal focal() const { return {settings_.gamma}; }
  double class_weight(Index c) const { return settings_.class_weights.empty() ? 1.0 : settings_.class_weights[c]; }

  // From slopes by probabilities to slopes by outputs.
  void add_slopes(const Sample& s, const Probabilities& all, const std::vector<double>& by_probability,
                  Result& result) const {
    for (Index position = 0; position < s.positions; ++position) {
      double mean = 0;
      for (Index i = position * s.channels; i < (position + 1) * s.channels; ++i) mean += all.p[i] * by_probability[i];
      for (Index i = position * s.channels; i < (position + 1) * s.channels; ++i)
        result.slope[i] += settings_.task() == Task::classes ? all.p[i] * (by_probability[i] - mean)
                                                             : all.p[i] * (1 - all.p[i]) * by_probability[i];
    }
  }

  const LossSettings& settings_;
};

class Loss final : public LossOp {
 public:
  Loss(const LossSettings& settings, const Shape& output, Index target_channels)
      : settings_(settings), output_(output), target_channels_(target_channels) {}

  void run(const StepContext& step, ConstTensor y, ConstTensor target, Span dy, Span sum) override {
    check_rows(y.shape, output_.n);
    const Index positions = product(output_.spatial), outputs = output_.per_sample();
    const double weight = step.sample_sum != nullptr ? step.loss_weight : double{step.loss_weight} * step.share;
    double total = 0;
    for (Index row = 0; row < y.shape.n; ++row) {
      const Result result =
          loss_of_sample({y.data.data() + row * outputs, target.data.data() + row * positions * target_channels_,
                          positions, output_.channels, target_channels_, weight, step.sample_sum});
      total += result.loss;
      if (dy.empty()) continue;
      for (Index i = 0; i < outputs; ++i) dy[row * outputs + i] = static_cast<float>(result.slope[i]);
    }
    sum[0] = static_cast<float>(total * step.share);
  }

 private:
  Result loss_of_sample(const Sample& sample) const {
    Result result;
    result.slope.resize(static_cast<std::size_t>(output_.per_sample()));
    if (settings_.task() == Task::regression) {
      add_errors(ErrorLoss::of(settings_), sample, result);
      return result;
    }
    const ProbabilityLoss loss(settings_);
    const Probabilities all = settings_.task() == Task::classes ? softmax(sample) : sigmoids(sample);
    loss.add_cross_entropy(sample, all, result);
    loss.add_binary(sample, all, result);
    loss.add_dice(sample, all, result);
    return result;
  }

  LossSettings settings_;
  Shape output_;
  Index target_channels_;
};

}  // namespace

std::unique_ptr<LossOp> ReferenceBackend::loss(const LossSettings& settings, const Shape& output,
                                               Index target_channels) {
  check_loss(settings, output, target_channels);
  return std::make_unique<Loss>(settings, output, target_channels);
}

}  // namespace mrmf::reference
