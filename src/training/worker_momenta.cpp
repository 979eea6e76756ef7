// Momenta that each worker has of its own gradients: when they are averaged, and how far apart they are. Declared in
// gradient_compression.hpp.
#include <algorithm>
#include <cmath>

#include "kernels/errors.hpp"
#include "src/training/gradient_compression.hpp"

namespace mrmf {
namespace {

// total = the sum of the workers' values. For one worker a rank, as gradients are summed; else in fixed point, so that
// it does not matter on which rank a worker is.
void add(const std::vector<Span>& values, int all, Comm& team, Span total) {
  if (values.size() == 1) {
    if (total.data() != values.front().data()) std::ranges::copy(values.front(), total.begin());
    return team.sum(total);
  }
  const std::vector<std::span<const float>> summands(values.begin(), values.end());
  team.sum_summands(summands, all, total);
}

// Evenly spaced ones, so that a spread costs little on a slow network.
std::vector<float> some_of(ConstSpan values) {
  constexpr std::size_t kMost = 4096;
  const std::size_t step = (values.size() + kMost - 1) / kMost;
  std::vector<float> some;
  for (std::size_t i = 0; i < values.size(); i += step) some.push_back(values[i]);
  return some;
}

}  // namespace

double averages_share(const MomentaSettings& settings, double steps) {
  if (settings.rule == MomentaRule::every) return 1.0 / settings.every;
  if (settings.rule != MomentaRule::spaced || steps < 1) return 0;
  double count = 0;
  for (double at = 1; at <= steps; ++count) at += std::max(1.0, std::exp2(count / settings.spacing));
  return count / steps;
}

bool averages_momenta(const MomentaSettings& settings, std::uint64_t step) {
  switch (settings.rule) {
    case MomentaRule::shared:
    case MomentaRule::local: return false;
    case MomentaRule::every: return step % static_cast<std::uint64_t>(settings.every) == 0;
    case MomentaRule::spaced: break;
  }
  double at = 1;
  const auto wanted = static_cast<double>(step);
  for (int j = 0; std::floor(at) < wanted; ++j) at += std::exp2(static_cast<double>(j) / settings.spacing);
  return std::floor(at) == wanted;
}

bool matches(std::string_view pattern, std::string_view name) {
  std::size_t at = 0, in_name = 0, begun = 0;  // begun: where the last star's characters end so far
  std::size_t star = std::string_view::npos;
  while (in_name < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++, begun = in_name;
    } else if (at < pattern.size() && pattern[at] == name[in_name]) {
      ++at, ++in_name;
    } else if (star != std::string_view::npos) {
      at = star + 1, in_name = ++begun;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

namespace {

bool averages(const MomentaSettings& settings, const std::string& tensor) {
  return settings.tensors.empty() ||
         std::ranges::any_of(settings.tensors, [&](const std::string& name) { return matches(name, tensor); });
}

}  // namespace

std::vector<ArenaSpan> averaged_spans(const MomentaSettings& settings, const std::vector<TensorSpan>& tensors,
                                      Index floats) {
  if (settings.tensors.empty()) return {{0, floats}};
  std::vector<ArenaSpan> spans;
  bool before = false;
  for (const TensorSpan& tensor : tensors) {
    const bool now = averages(settings, tensor.name);
    const auto first = static_cast<Index>(tensor.first), count = static_cast<Index>(tensor.count);
    if (now && before) spans.back().count = first + count - spans.back().first;
    if (now && !before) spans.push_back({first, count});
    before = now;
  }
  return spans;
}

double averaged_count(const MomentaSettings& settings, const Network& network) {
  double count = 0;
  if (!settings.averaged()) return count;
  for (const TensorSpan& tensor : parameter_spans(network))
    if (averages(settings, tensor.name)) count += static_cast<double>(tensor.count);
  return count;
}

void require_averaged_tensors(const MomentaSettings& settings, const Network& network) {
  const std::vector<TensorSpan> tensors = parameter_spans(network);
  for (const std::string& name : settings.tensors)
    if (std::ranges::none_of(tensors, [&](const TensorSpan& tensor) { return matches(name, tensor.name); }))
      throw ConfigError("training.momenta.tensors has \"" + name +
                        "\", and no parameter has such a name; names are as \"" + tensors.front().name +
                        "\", and * stands for any characters");
}

namespace {

// Momenta in the host's memory: themselves, or copies of a device's.
class OnHost {
 public:
  OnHost(Backend& backend, const std::vector<Span>& momenta) : backend_(backend), momenta_(momenta), spans_(momenta) {
    if (backend.synchronous()) return;
    for (Span& span : spans_) {
      std::vector<float>& copy = copies_.emplace_back(span.size());
      backend.read(span, copy);
      span = copy;
    }
  }
  const std::vector<Span>& spans() const { return spans_; }
  void write_back() {
    for (std::size_t i = 0; i < copies_.size(); ++i) backend_.write(copies_[i], momenta_[i]);
  }

 private:
  Backend& backend_;
  const std::vector<Span>& momenta_;
  std::vector<Span> spans_;
  std::vector<std::vector<float>> copies_;
};

}  // namespace

double average_momenta(Backend& backend, const std::vector<Span>& momenta, const std::vector<float>& weights, int all,
                       Comm& team) {
  OnHost host(backend, momenta);
  const std::vector<Span>& spans = host.spans();
  for (std::size_t i = 0; i < spans.size(); ++i)
    for (float& value : spans[i]) value *= weights[i];
  add(spans, all, team, spans.front());
  for (std::size_t i = 1; i < spans.size(); ++i) std::ranges::copy(spans.front(), spans[i].begin());
  host.write_back();
  return sum_bytes(Communication::fp32, static_cast<double>(spans.front().size()), team.size());
}

double average_momenta(Backend& backend, const std::vector<Span>& momenta, int all, Comm& team) {
  if (momenta.empty() || all == 1) return 0;
  return average_momenta(backend, momenta, std::vector<float>(momenta.size(), 1.0F / static_cast<float>(all)), all,
                         team);
}

std::vector<MomentaSpread> momenta_spread(Backend& backend, const std::vector<Span>& momenta, int all,
                                          const std::vector<TensorSpan>& tensors, Comm& team) {
  const OnHost host(backend, momenta);
  std::vector<double> sums(2 * tensors.size());  // of squares of means, of deviations from them
  std::vector<std::size_t> counts;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    std::vector<std::vector<float>> values;
    std::vector<Span> spans;
    for (const Span momentum : host.spans()) spans.push_back(values.emplace_back(some_of(tensors[t].in(momentum))));
    counts.push_back(spans.front().size());
    std::vector<float> total(counts.back());
    add(spans, all, team, total);
    for (std::size_t i = 0; i < total.size(); ++i) {
      const double mean = double{total[i]} / all;
      sums[2 * t] += mean * mean * static_cast<double>(momenta.size());
      for (const Span own : spans) sums[2 * t + 1] += (own[i] - mean) * (own[i] - mean);
    }
  }
  team.sum(sums);
  std::vector<MomentaSpread> result;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const double count = static_cast<double>(counts[t]) * all;
    result.push_back({tensors[t].name, sums[2 * t] / count, sums[2 * t + 1] / count});
  }
  return result;
}

}  // namespace mrmf
