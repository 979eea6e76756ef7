// Gradient compression (training.communication): bytes and seconds of each way, which one "auto" chooses; and the
// momenta that workers have of their own gradients: when they are averaged, how far apart they are.
#include "src/training/gradient_compression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "kernels/timer.hpp"

namespace mrmf {

// Ways in which gradients travel between ranks (training.communication): how many bytes each sends, how long a sum
// takes, which one "auto" chooses.

void PackedTensors::read(ConstSpan arena, const SumPiece& piece, float* to) const {
  for_each(piece,
           [&](std::size_t offset, const Part& part) { std::copy_n(arena.data() + part.at, part.count, to + offset); });
}

void PackedTensors::write(const float* from, const SumPiece& piece, Span arena) const {
  for_each(piece, [&](std::size_t offset, const Part& part) {
    std::copy_n(from + offset, part.count, arena.data() + part.at);
  });
}

std::size_t PackedTensors::offset_of(std::size_t number) const {
  const auto next = std::ranges::upper_bound(parts_, number, {}, &Part::first);
  MRMF_CHECK(next != parts_.begin() && number < count_, "a value of these tensors");
  return std::prev(next)->at + (number - std::prev(next)->first);
}

std::unique_ptr<SumCoding> make_sum_coding(const CodingSettings& settings, PackedTensors tensors,
                                           std::vector<WorkerValues> workers, Span result, Span sum_residual) {
  coding::Values values{std::move(tensors), std::move(workers), result, sum_residual};
  switch (settings.scheme) {
    case Communication::bf16: return coding::make_bf16(std::move(values));
    case Communication::int8: return coding::make_scaled(std::move(values));
    case Communication::vote: return coding::make_votes(settings.tie_key, std::move(values));
    case Communication::levels8:
    case Communication::levels8_l0:
    case Communication::levels4:
      return coding::make_levels(settings.scheme == Communication::levels4, settings.most_level, std::move(values));
    case Communication::fp32:
    case Communication::automatic: break;
  }
  throw FaultError("sums in float32 have no codes");
}

int most_workers(const SumSettings& sums) {
  if (sums.full_levels) return std::numeric_limits<int>::max();
  switch (sums.communication) {
    case Communication::levels8:
    case Communication::levels8_l0: return 127;
    case Communication::levels4: return 15;
    default: return std::numeric_limits<int>::max();
  }
}

int most_level(const SumSettings& sums, int workers) {
  const int one = sums.communication == Communication::levels4 ? 7 : 127;
  return sums.full_levels ? one : std::min(most_workers(sums) / workers, one);
}

double cut_off(const SumSettings& sums) {
  if (!sums.full_levels) return 2;
  return sums.communication == Communication::levels4 ? 3 : 8;
}

std::size_t fewest_values(Communication scheme, int ranks) {
  constexpr double kMessage = 64 << 10;  // bytes of a piece's codes
  return static_cast<std::size_t>(kMessage / code_bytes(scheme, 1).there) * static_cast<std::size_t>(ranks);
}

CodeBytes code_bytes(Communication scheme, double values) {
  switch (scheme) {
    case Communication::bf16: return {2 * values, 2 * values};
    case Communication::int8: {
      const double bytes = values * (1 + sizeof(float) / double{coding::kScaled});
      return {bytes, bytes};
    }
    case Communication::levels8:
    case Communication::levels8_l0: return {values, values / 4};
    case Communication::levels4: return {values / 2, values / 4};
    case Communication::vote: return {values / 8, values / 8};
    case Communication::fp32:
    case Communication::automatic: break;
  }
  return {4 * values, 4 * values};
}

double sum_bytes(Communication scheme, double values, int ranks, int workers) {
  const CodeBytes bytes = code_bytes(scheme, values);
  return (ranks - 1.0) / ranks *
         (scheme == Communication::fp32 ? bytes.there + bytes.back : workers * bytes.there + bytes.back);
}

namespace {

// One tensor of normal values, as a worker brings them.
class TrialValues {
 public:
  TrialValues(Communication scheme, std::size_t count, int ranks, int rank)
      : scheme_(scheme), level_(most_level({scheme}, ranks)), values_(count), factor_(static_cast<float>(level_) / 2) {
    Rng rng(mix(7, static_cast<std::uint64_t>(rank)));
    std::vector<float> some(std::min<std::size_t>(count, 65536));
    for (float& value : some) value = static_cast<float>(rng.normal());
    for (std::size_t i = 0; i < count; ++i) values_[i] = some[i % some.size()];
    sums_ = values_;
  }
  Span values() { return values_; }
  // In sums of a million values, as in training, so that encoding goes on beside messages.
  template <class Action>
  void for_parts(const Action& action) const {
    constexpr std::size_t kPart = std::size_t{1} << 20;
    for (std::size_t first = 0; first < values_.size(); first += kPart)
      action(first, std::min(kPart, values_.size() - first));
  }
  std::unique_ptr<SumCoding> coding(std::size_t first, std::size_t count) {
    PackedTensors tensors;
    tensors.add(first, count, 0);
    return make_sum_coding({scheme_, level_, 1}, std::move(tensors), {{values_, {}, &factor_, 1}}, sums_);
  }

 private:
  Communication scheme_;
  int level_;
  std::vector<float> values_, sums_;
  float factor_;
};

// Seconds of the slowest rank, the median of so many times after one that is not counted.
template <class Action>
double time(int times, Comm& team, const Action& action) {
  std::vector<double> seconds;
  for (int i = 0; i <= times; ++i) {
    team.barrier();
    const Timer timer;
    action();
    const double slowest = team.max(timer.seconds());
    if (i > 0) seconds.push_back(slowest);
  }
  return median(seconds);
}

std::string ms(double seconds) { return fmt::format("{:.3g} ms", 1e3 * seconds); }

}  // namespace

SumTrial try_sum(Communication scheme, std::size_t values, int times, Comm& team) {
  TrialValues trial(scheme, values, team.size(), team.rank());
  SumTrial result{scheme, 0, 0, sum_bytes(scheme, static_cast<double>(values), team.size())};
  if (scheme == Communication::fp32) {
    result.seconds = time(times, team, [&] { team.start_sum(trial.values()).finish(); });
    return result;
  }
  CodeMemory memory;
  result.seconds = time(times, team, [&] {
    std::vector<PendingSum> sums;
    trial.for_parts([&](std::size_t first, std::size_t count) {
      sums.push_back(team.start_sum(CodedSum{count, 1, trial.coding(first, count), &memory}));
    });
    for (PendingSum& sum : sums) sum.finish();
  });
  result.packing = time(times, team, [&] {
    trial.for_parts(
        [&](std::size_t first, std::size_t count) { sum_here({trial.coding(first, count).get()}, count, 1); });
  });
  return result;
}

std::map<std::string, double> coding_times(Comm& team) {
  using enum Communication;
  constexpr std::size_t kValues = std::size_t{1} << 20;
  std::map<std::string, double> times;
  for (const Communication scheme : {bf16, int8, levels8, levels8_l0, levels4, vote})
    if (team.size() <= most_workers({scheme}))
      times[to_string(scheme)] = try_sum(scheme, kValues, 5, team).packing / static_cast<double>(kValues);
  return times;
}

double measured_link(Comm& team) {
  if (team.size() == 1) return 0;
  constexpr int kBytes = 1 << 24;  // to all others together
  const int others = team.size() - 1, each = kBytes / static_cast<int>(sizeof(float)) / others;
  std::vector<int> counts(static_cast<std::size_t>(team.size()), each);
  counts[static_cast<std::size_t>(team.rank())] = 0;
  AllToAll all(team, counts);
  const std::vector<float> values(all.sent());
  std::vector<float> arrived(all.received());
  const double seconds = time(3, team, [&] { all.send(values, arrived); });
  return static_cast<double>(all.sent() * sizeof(float)) / seconds;
}

CommunicationChoice choose_communication(const TrainingConfig& training, std::size_t values, Comm& team) {
  const bool lion = training.optimizer.name == OptimizerKind::lion && training.clip_norm == 0;
  if (team.size() == 1) return {Communication::fp32, "communication: one rank adds nothing"};
  const Communication other =
      lion && team.size() <= most_workers({Communication::levels8}) ? Communication::levels8 : Communication::bf16;
  if (values < kFewestValues)
    return {Communication::fp32,
            fmt::format("communication: fp32; sums of {} values are too short to be coded", values)};
  constexpr std::size_t kMost = std::size_t{1} << 22;
  constexpr int kTimes = 3;
  const std::size_t count = std::min(values, kMost);
  double plain = std::numeric_limits<double>::infinity(), coded = plain;
  for (int round = 0; round < 3; ++round) {  // in turns, so that a busy moment does not decide
    plain = std::min(plain, try_sum(Communication::fp32, count, kTimes, team).seconds);
    coded = std::min(coded, try_sum(other, count, kTimes, team).seconds);
  }
  const Communication chosen = coded <= kWorthIt * plain && plain - coded >= kLeastGain ? other : Communication::fp32;
  std::string text = fmt::format("communication: {}; a sum of {} values takes {} in fp32 and {} in {}",
                                 to_string(chosen), count, ms(plain), ms(coded), to_string(other));
  if (chosen == Communication::levels8) text += "; each rank has a momentum of its own";
  return {chosen, text};
}

// Momenta that each worker has of its own gradients: when they are averaged, and how far apart they are. Declared in
// gradient_compression.hpp.

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
  std::vector<double> sums(2 * tensors.size());  // sums of squares of means, then of deviations from them
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
