// Norms by their formulas: batch norm (alone, with ReLU and average pooling, and before a network's first convolution),
// group norm, local contrast normalisation.
#include <cmath>
#include <vector>

#include "kernels/cpu/convolutions.hpp"
#include "kernels/reference/backend.hpp"

namespace mrmf::reference {

// Batch norm, alone, with ReLU and average pooling, and before a network's first convolution. Group norm.

namespace {

/// Batch norm (Ioffe & Szegedy 2015, algorithm 1); statistics in two passes: mean, then centred squares.
class Norm final : public NormOp {
 public:
  Norm(const NormSettings& settings, Index max_rows)
      : settings_(settings),
        channels_(static_cast<std::size_t>(settings.channels)),
        max_rows_(max_rows),
        sums_(channels_ + 1),
        moments_(2 * channels_ + 1) {}

  void forward(const StepContext& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    check_rows(x.shape, max_rows_);
    if (step.training) update_statistics(step, x.data, memory);
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      const std::size_t c = i % channels_;
      const double mean = step.training ? double{memory.mean[c]} : memory.running_mean[c] - left_out(memory, c);
      const double inverse = step.training ? memory.inverse_deviation[c] : inverse_root(memory.running_variance[c]);
      y.data[i] = static_cast<float>(memory.gamma[c] * (x.data[i] - mean) * inverse + memory.beta[c]);
    }
  }

  void backward(const StepContext& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                Span dbeta, Tensor dx) override {
    check_rows(x.shape, max_rows_);
    const auto normalised = [&](std::size_t i) {
      const std::size_t c = i % channels_;
      return (double{x.data[i]} - memory.mean[c]) * memory.inverse_deviation[c];
    };
    std::fill(moments_.begin(), moments_.end(), 0.0);
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      moments_[i % channels_] += dy.data[i];
      moments_[channels_ + i % channels_] += dy.data[i] * normalised(i);
    }
    for (std::size_t c = 0; c < channels_; ++c) {
      dbeta[c] = static_cast<float>(moments_[c]);
      dgamma[c] = static_cast<float>(moments_[channels_ + c]);
    }
    const std::size_t rows = x.data.size() / channels_;
    moments_.back() = static_cast<double>(rows);
    if (step.team_sum != nullptr) step.team_sum->sum(moments_);
    if (dx.data.empty()) return;
    const double count = moments_.back();
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      const std::size_t c = i % channels_;
      const double centred = dy.data[i] - moments_[c] / count - normalised(i) * moments_[channels_ + c] / count;
      dx.data[i] = static_cast<float>(double{memory.gamma[c]} * memory.inverse_deviation[c] * centred);
    }
  }

 private:
  // Whether statistics are of the position of this element of x, too.
  bool counts(std::size_t element) const {
    if (!settings_.counted) return true;
    auto rest = static_cast<Index>(element / channels_);
    for (std::size_t a = 3; a-- > 0; rest /= settings_.in[a]) {
      const Index at = rest % settings_.in[a];
      if (at < settings_.counted->first[a] || at >= settings_.counted->end(a)) return false;
    }
    return true;
  }
  static double left_out(const NormMemory& memory, std::size_t c) {
    return memory.bias.empty() ? 0.0 : double{memory.bias[c]};
  }
  double inverse_root(double variance) const { return 1.0 / std::sqrt(variance + double{settings_.epsilon}); }

  void update_statistics(const StepContext& step, ConstSpan x, const NormMemory& memory) {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!counts(i)) continue;
      sums_[i % channels_] += x[i];
      if (i % channels_ == 0) sums_.back() += 1;
    }
    if (step.team_sum != nullptr) step.team_sum->sum(sums_);
    const double count = sums_.back();

    const std::span<double> squares = std::span(moments_).first(channels_);
    std::fill(squares.begin(), squares.end(), 0.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!counts(i)) continue;
      const double distance = x[i] - sums_[i % channels_] / count;
      squares[i % channels_] += distance * distance;
    }
    if (step.team_sum != nullptr) step.team_sum->sum(squares);

    const auto drift = [&](float& running, double batch) {
      running = static_cast<float>(running + double{settings_.momentum} * (batch - running));
    };
    for (std::size_t c = 0; c < channels_; ++c) {
      memory.mean[c] = static_cast<float>(sums_[c] / count);
      memory.inverse_deviation[c] = static_cast<float>(inverse_root(squares[c] / count));
      drift(memory.running_mean[c], sums_[c] / count + left_out(memory, c));
      drift(memory.running_variance[c], squares[c] / std::max(count - 1.0, 1.0));
    }
  }

  NormSettings settings_;
  std::size_t channels_;
  Index max_rows_;
  std::vector<double> sums_;     // per channel, then the number of values
  std::vector<double> moments_;  // two sums per channel, then the number of values
};

}  // namespace

std::unique_ptr<NormOp> ReferenceBackend::norm(const NormSettings& settings, Index max_rows) {
  return std::make_unique<Norm>(settings, max_rows);
}

namespace {

/// Group norm (Wu & He 2018, equations 1 to 7) and the ReLU behind it; statistics in two passes.
class GroupNorm final : public NormOp {
 public:
  GroupNorm(const GroupNormSettings& settings, Index max_rows)
      : s_(settings), width_(settings.channels / settings.groups), max_rows_(max_rows) {}

  void forward(const StepContext& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    check_rows(x.shape, max_rows_);
    for_each_group(x.shape.n, [&](Index row, Index group) {
      double sum = 0, squares = 0;
      for_each_value(row, group, [&](Index, Index i) { sum += x.data[i]; });
      const double mean = total(step, sum) / values();
      for_each_value(row, group, [&](Index, Index i) { squares += (x.data[i] - mean) * (x.data[i] - mean); });
      const double inverse = 1.0 / std::sqrt(total(step, squares) / values() + double{s_.epsilon});
      memory.mean[row * s_.groups + group] = static_cast<float>(mean);
      memory.inverse_deviation[row * s_.groups + group] = static_cast<float>(inverse);
      for_each_value(row, group, [&](Index c, Index i) {
        const double z = output(memory, c, (x.data[i] - mean) * inverse);
        y.data[i] = static_cast<float>(z < 0 ? s_.slope * z : z);
      });
    });
  }

  void backward(const StepContext& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                Span dbeta, Tensor dx) override {
    check_rows(x.shape, max_rows_);
    std::vector<double> gamma_sums(static_cast<std::size_t>(s_.channels)), beta_sums(gamma_sums.size());
    for_each_group(x.shape.n, [&](Index row, Index group) {
      const double mean = memory.mean[row * s_.groups + group];
      const double inverse = memory.inverse_deviation[row * s_.groups + group];
      double sum = 0, products = 0;  // sums of the normalised values' gradient, and of it times these
      for_each_value(row, group, [&](Index c, Index i) {
        const double normalised = (x.data[i] - mean) * inverse, dz = gradient(memory, c, normalised, dy.data[i]);
        beta_sums[c] += dz;
        gamma_sums[c] += dz * normalised;
        sum += double{memory.gamma[c]} * dz;
        products += double{memory.gamma[c]} * dz * normalised;
      });
      if (dx.data.empty()) return;
      sum = total(step, sum), products = total(step, products);
      for_each_value(row, group, [&](Index c, Index i) {
        const double normalised = (x.data[i] - mean) * inverse;
        const double g = double{memory.gamma[c]} * gradient(memory, c, normalised, dy.data[i]);
        dx.data[i] = static_cast<float>(inverse * (g - sum / values() - normalised * products / values()));
      });
    });
    std::copy(gamma_sums.begin(), gamma_sums.end(), dgamma.begin());
    std::copy(beta_sums.begin(), beta_sums.end(), dbeta.begin());
  }

 private:
  double values() const { return static_cast<double>(s_.values()); }
  /// The output of the norm, before the activation.
  double output(const NormMemory& memory, Index c, double normalised) const {
    return double{memory.gamma[c]} * normalised + double{memory.beta[c]};
  }
  double gradient(const NormMemory& memory, Index c, double normalised, double dy) const {
    return output(memory, c, normalised) <= 0 ? s_.slope * dy : dy;
  }
  /// Over all ranks that share the sample.
  double total(const StepContext& step, double sum) const {
    MRMF_CHECK(s_.sample_positions == 0 || step.sample_sum != nullptr,
               "a norm of a block needs the sums over its sample");
    if (s_.sample_positions > 0) step.sample_sum->sum({&sum, 1});
    return sum;
  }

  template <class Use>
  void for_each_group(Index rows, Use use) const {
    for (Index row = 0; row < rows; ++row)
      for (Index group = 0; group < s_.groups; ++group) use(row, group);
  }
  /// use(channel, element) for all values of a row's group.
  template <class Use>
  void for_each_value(Index row, Index group, Use use) const {
    for (Index position = 0; position < s_.positions; ++position)
      for (Index c = group * width_; c < (group + 1) * width_; ++c)
        use(c, (row * s_.positions + position) * s_.channels + c);
  }

  GroupNormSettings s_;
  Index width_;  // channels of a group
  Index max_rows_;
};

}  // namespace

std::unique_ptr<NormOp> ReferenceBackend::group_norm(const GroupNormSettings& settings, Index max_rows) {
  return std::make_unique<GroupNorm>(settings, max_rows);
}

namespace {

/// The fused operation as the composition of its parts.
class NormActivatePool final : public NormOp {
 public:
  NormActivatePool(Backend& backend, const NormReluPool& settings, Index max_rows)
      : backend_(backend),
        kind_(settings.slope > 0 ? ActivationKind::leaky_relu : ActivationKind::relu),
        slope_(settings.slope),
        norm_(backend.norm(settings.norm, max_rows)),
        pool_(settings.pool ? backend.pool(*settings.pool, max_rows) : nullptr),
        full_(static_cast<std::size_t>(max_rows * product(settings.in) * settings.norm.channels)),
        gradient_(full_.size()) {}

  void forward(const StepContext& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    const Tensor z{x.shape, Span(full_).first(x.data.size())};
    norm_->forward(step, x, memory, z);
    backend_.activate(kind_, slope_, z, z);
    if (pool_)
      pool_->forward(z, y, {});
    else
      std::copy(z.data.begin(), z.data.end(), y.data.begin());
  }

  void backward(const StepContext& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                Span dbeta, Tensor dx) override {
    const Tensor dz{x.shape, Span(gradient_).first(x.data.size())};
    if (pool_)
      pool_->backward(dy, {}, dz);
    else
      std::copy(dy.data.begin(), dy.data.end(), dz.data.begin());
    backend_.activate_backward(kind_, slope_, {x.shape, ConstSpan(full_).first(x.data.size())}, dz, dz);
    norm_->backward(step, x, dz, memory, dgamma, dbeta, dx);
  }

 private:
  Backend& backend_;
  ActivationKind kind_;
  float slope_;
  std::unique_ptr<NormOp> norm_;
  std::unique_ptr<PoolOp> pool_;
  std::vector<float> full_, gradient_;  // behind the activation, and its gradient
};

}  // namespace

std::unique_ptr<NormOp> ReferenceBackend::norm_relu_pool(const NormReluPool& settings, Index max_rows) {
  return std::make_unique<NormActivatePool>(*this, settings, max_rows);
}

std::unique_ptr<NormConvOp> ReferenceBackend::norm_conv(const NormSettings& settings, const ConvGeometry& geometry,
                                                        Index max_rows) {
  return cpu::make_norm_conv({norm(settings, max_rows), conv(geometry, max_rows)}, geometry);
}

std::unique_ptr<ConvNormOp> ReferenceBackend::conv_norm(const ConvNorm&, Index) { return nullptr; }

// Local contrast normalisation, by its formula; declared in backend.hpp.

namespace {

/// Local contrast normalisation, in the order of its formula: means, what is left of x, deviations, quotients.
class Contrast final : public ContrastOp {
 public:
  Contrast(const ContrastGeometry& geometry, Index max_rows) : g_(geometry), max_rows_(max_rows) {}

  void forward(ConstTensor x, Span, Tensor y) override {
    check_rows(x.shape, max_rows_);
    for (Index row = 0; row < x.shape.n; ++row) {
      measure(x.data.data() + row * product(g_.in) * g_.channels);
      Index element = row * product(g_.out.count) * g_.channels;
      for_each_in(g_.out, [&](const Extent& at) {
        for (Index c = 0; c < g_.channels; ++c)
          y.data[element++] = static_cast<float>(left_[index(at, c)] / divisor(at));
      });
    }
  }

  void backward(ConstTensor x, ConstTensor dy, Span, Tensor dx) override {
    check_rows(x.shape, max_rows_);
    for (Index row = 0; row < x.shape.n; ++row) {
      measure(x.data.data() + row * product(g_.in) * g_.channels);
      dleft_.assign(left_.size(), 0.0), dx_.assign(left_.size(), 0.0);
      Index element = row * product(g_.out.count) * g_.channels;
      for_each_in(g_.out, [&](const Extent& at) {
        double product = 0;
        for (Index c = 0; c < g_.channels; ++c, ++element) {
          dleft_[index(at, c)] += dy.data[element] / divisor(at);
          product += dy.data[element] * left_[index(at, c)];
        }
        const double deviation = std::sqrt(variance_[flat(g_.in, at)]);
        if (!(deviation < g_.floor)) spread_variance(at, -product / (2 * deviation * deviation * deviation));
      });
      for_each_in(g_.middle(), [&](const Extent& at) {
        double of_mean = 0;
        for (Index c = 0; c < g_.channels; ++c) {
          dx_[index(at, c)] += dleft_[index(at, c)];
          of_mean -= dleft_[index(at, c)];
        }
        for_each_weight(at, [&](const Extent& from, double weight) {
          for (Index c = 0; c < g_.channels; ++c)
            dx_[index(from, c)] += of_mean * weight / static_cast<double>(g_.channels);
        });
      });
      for (std::size_t i = 0; i < dx_.size(); ++i)
        dx.data[static_cast<std::size_t>(row) * dx_.size() + i] = static_cast<float>(dx_[i]);
    }
  }

 private:
  std::size_t index(const Extent& at, Index c) const {
    return static_cast<std::size_t>(flat(g_.in, at) * g_.channels + c);
  }
  double divisor(const Extent& at) const {
    const double deviation = std::sqrt(variance_[flat(g_.in, at)]);
    return deviation < g_.floor ? double{g_.floor} : deviation;
  }

  /// What is left of x behind its mean, and the variance of that.
  void measure(const float* x) {
    const auto channels = static_cast<double>(g_.channels);
    left_.assign(static_cast<std::size_t>(product(g_.in) * g_.channels), 0.0);
    variance_.assign(static_cast<std::size_t>(product(g_.in)), 0.0);
    for_each_in(g_.middle(), [&](const Extent& at) {
      double mean = 0;
      for_each_weight(at, [&](const Extent& from, double weight) {
        for (Index c = 0; c < g_.channels; ++c) mean += weight * x[index(from, c)] / channels;
      });
      for (Index c = 0; c < g_.channels; ++c) left_[index(at, c)] = x[index(at, c)] - mean;
    });
    for_each_in(g_.out, [&](const Extent& at) {
      for_each_weight(at, [&](const Extent& from, double weight) {
        for (Index c = 0; c < g_.channels; ++c)
          variance_[flat(g_.in, at)] += weight * left_[index(from, c)] * left_[index(from, c)] / channels;
      });
    });
  }
  void spread_variance(const Extent& at, double gradient) {
    for_each_weight(at, [&](const Extent& from, double weight) {
      for (Index c = 0; c < g_.channels; ++c)
        dleft_[index(from, c)] += gradient * weight * 2 * left_[index(from, c)] / static_cast<double>(g_.channels);
    });
  }

  template <class Use>
  static void for_each_in(const Box& box, Use use) {
    for_each_position(box.count, [&](const Extent& at) {
      use(Extent{box.first[0] + at[0], box.first[1] + at[1], box.first[2] + at[2]});
    });
  }
  /// use(position, weight) for the positions of the window around `at` that are in the sample. The weights' sum is 1.
  template <class Use>
  void for_each_weight(const Extent& at, Use use) const {
    double sum = 0;
    const auto visit = [&](auto with) {
      for_each_position(g_.window, [&](const Extent& tap) {
        double weight = 1;
        Extent from{};
        for (std::size_t a = 0; a < 3; ++a) {
          const Index distance = tap[a] - g_.window[a] / 2;
          from[a] = at[a] + distance;
          if (from[a] + g_.first[a] < 0 || from[a] + g_.first[a] >= g_.sample[a]) return;
          weight *= g_.weight(a, std::abs(distance));
        }
        with(from, weight);
      });
    };
    visit([&](const Extent&, double weight) { sum += weight; });
    visit([&](const Extent& from, double weight) { use(from, weight / sum); });
  }

  ContrastGeometry g_;
  Index max_rows_;
  std::vector<double> left_, variance_, dleft_, dx_;  // values of one row
};

}  // namespace

std::unique_ptr<ContrastOp> ReferenceBackend::contrast(const ContrastGeometry& geometry, Index max_rows) {
  return std::make_unique<Contrast>(geometry, max_rows);
}

}  // namespace mrmf::reference
