// Ways in which gradients travel between ranks (training.communication): how many bytes each sends, how long a sum
// takes, which one "auto" chooses.
#include "src/training/gradient_compression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "kernels/timer.hpp"

namespace mrmf {

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

}  // namespace mrmf
