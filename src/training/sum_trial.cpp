#include "src/training/sum_trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/random.hpp"
#include "kernels/timer.hpp"
#include "src/training/sum_coding.hpp"

namespace mrmf {
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
  if (values < kFewest)
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

}  // namespace mrmf
