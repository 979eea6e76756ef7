// The all-reduce whose values travel as codes, or that adds the directions of Lion's steps. Declared in
// gradient_compression.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/cpu/sum_codes.hpp"
#include "kernels/errors.hpp"
#include "src/training/gradient_compression.hpp"

namespace mrmf {
namespace {

// Values of one coded sum, whole blocks: so few that encoding goes on beside its messages, and that those of a rank's
// many workers are not too long; so many that messages to many ranks are not too short.
std::size_t most_values(Communication scheme, int own_workers, int ranks) {
  constexpr std::size_t kOne = std::size_t{1} << 20, kAll = std::size_t{1} << 24, kBlock = SumCoding::kBlock;
  const std::size_t wanted = std::max(kOne, fewest_values(scheme, ranks));
  const std::size_t room = kAll / static_cast<std::size_t>(own_workers);
  return std::max(std::min(wanted, room) / kBlock, std::size_t{1}) * kBlock;
}

bool has_levels(Communication scheme) {
  return scheme == Communication::levels8 || scheme == Communication::levels8_l0 || scheme == Communication::levels4;
}

// The size of a tensor's values by which levels go: their mean, or their geometric mean without zeros.
double scale_of(Communication scheme, const float* values, std::size_t count) {
  if (scheme != Communication::levels8_l0) return cpu::sum_of_sizes(values, count) / static_cast<double>(count);
  const cpu::SizeLogarithms logarithms = cpu::size_logarithms(values, count);
  return logarithms.count == 0 ? 0 : std::exp2(logarithms.sum / static_cast<double>(logarithms.count));
}

/// Books what a coding computes as computation, also while its sum is waited for.
class TimedCoding final : public SumCoding {
 public:
  TimedCoding(std::unique_ptr<SumCoding> coding, PendingSums& sums) : coding_(std::move(coding)), sums_(sums) {}

  std::size_t code_bytes(std::size_t count) const override { return coding_->code_bytes(count); }
  std::size_t result_bytes(std::size_t count) const override { return coding_->result_bytes(count); }
  std::size_t encode(int worker, const SumPiece& piece, std::span<std::byte> codes) override {
    const Computing time(sums_);
    return coding_->encode(worker, piece, codes);
  }
  std::size_t add(const SumPiece& piece, const std::vector<std::span<const std::byte>>& workers,
                  std::span<std::byte> result) override {
    const Computing time(sums_);
    return coding_->add(piece, workers, result);
  }
  void decode(const SumPiece& piece, std::span<const std::byte> result) override {
    const Computing time(sums_);
    coding_->decode(piece, result);
  }

 private:
  class Computing {
   public:
    explicit Computing(PendingSums& sums) : sums_(sums) {}
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;
    ~Computing() { sums_.computed(timer_.seconds()); }

   private:
    PendingSums& sums_;
    Timer timer_;
  };

  std::unique_ptr<SumCoding> coding_;
  PendingSums& sums_;
};

CodeFormat code_of(Communication scheme) {
  switch (scheme) {
    case Communication::int8: return CodeFormat::scaled;
    case Communication::levels8:
    case Communication::levels8_l0: return CodeFormat::levels8;
    case Communication::levels4: return CodeFormat::levels4;
    case Communication::vote: return CodeFormat::votes;
    default: return CodeFormat::bf16;
  }
}

}  // namespace

void require_communication(const SumSettings& sums, int workers, bool on_cpu) {
  if (sums.communication == Communication::automatic) return;  // takes what there is
  const std::string value = "training.communication = \"" + to_string(sums.communication) + "\"";
  if (workers > most_workers(sums))
    throw ConfigError(fmt::format(
        "{} adds what {} ranks or shards send, and its counters hold {}; set training.full_levels = true, or take "
        "\"vote\", or fewer ranks",
        value, workers, most_workers(sums)));
  if (!on_cpu && workers > 1 && sums.communication == Communication::fp32 && sums.adds_directions())
    throw ConfigError(
        "training.momenta.rule other than shared with sums in float32 is for the CPU; on a GPU, take shared momenta, "
        "or \"levels8\"");
}

WorkerSums::WorkerSums(ModelState& model_state, const SumSettings& settings, Backend& backend, Comm& team,
                       AllReduce* plain)
    : model_state_(model_state),
      settings_(settings),
      backend_(backend),
      team_(team),
      plain_(plain),
      device_(backend.synchronous() ? nullptr : dynamic_cast<CodedAllReduce*>(plain)),
      tensors_(parameter_spans(model_state.model.network(), model_state.model.layout())),
      averaged_(averaged_spans(settings.momenta, tensors_, std::ssize(model_state.model.params()))) {
  factors_.assign(static_cast<std::size_t>(model_state_.workers.count().own), std::vector<float>(tensors_.size()));
  MRMF_CHECK(backend.synchronous() || device_ != nullptr, "a device has sums of codes of its own");
}

void WorkerSums::begin(const StepContext& step, std::vector<Index> rows, Index all_rows) {
  step_ = &step;
  rows_ = std::move(rows);
  all_rows_ = all_rows;
  values_ = {model_state_.model.grads()};
}

float WorkerSums::gain() const {
  if (device_ == nullptr || !adds_directions() || rows_.front() == 0) return 1;
  return static_cast<float>(static_cast<double>(all_rows_) / static_cast<double>(rows_.front()));
}

// A worker's share of the rows.
float WorkerSums::weight(std::size_t worker) const {
  return static_cast<float>(static_cast<double>(rows_[worker]) / static_cast<double>(all_rows_));
}

void WorkerSums::sum(std::span<double> values) {
  if (plain_ != nullptr) plain_->sum(values);
}

void WorkerSums::start(Span part) {
  Model& model = model_state_.model;
  const auto first = static_cast<std::size_t>(part.data() - model.grads().data()), params = model.grads().size();
  const std::size_t end = std::min(first + part.size(), params);
  if (first < end) start_range(first, end);
  if (first + part.size() > params) plain_->start(part.subspan(std::max(first, params) - first));
}

void WorkerSums::finish() {
  pending_.finish();
  if (plain_ != nullptr) plain_->finish();
}

void WorkerSums::sum(const std::vector<Span>& gradients) {
  values_ = gradients;
  start_range(0, model_state_.model.grads().size());
  finish();
}

void WorkerSums::start_range(std::size_t first, std::size_t end) {
  if (device_ != nullptr) return start_on_device(first, end);
  for (std::size_t worker = 0; worker < values_.size(); ++worker)
    if (rows_[worker] == 0) std::fill_n(values_[worker].data() + first, end - first, 0.0F);  // values of a past step
  if (adds_directions()) take_directions(first, end);
  if (adds_directions() && !has_levels(settings_.communication) && settings_.communication != Communication::vote)
    weigh(first, end);
  if (settings_.communication == Communication::fp32) return add_plainly(first, end);
  for (const PackedTensors& tensors : tensors_in(first, end)) {
    if (has_levels(settings_.communication)) find_factors(tensors);
    start_coded(tensors);
  }
}

// A share of the mean gradient becomes the mean of the worker's own rows.
void WorkerSums::take_directions(std::size_t first, std::size_t end) {
  for (std::size_t worker = 0; worker < values_.size(); ++worker) {
    if (rows_[worker] == 0) continue;  // its momentum waits
    StepContext step = *step_;
    step.lion.gain = static_cast<float>(static_cast<double>(all_rows_) / static_cast<double>(rows_[worker]));
    backend_.lion_directions(step, values_[worker].subspan(first, end - first),
                             model_state_.workers.momenta()[worker].subspan(first, end - first));
  }
}

void WorkerSums::weigh(std::size_t first, std::size_t end) {
  for (std::size_t worker = 0; worker < values_.size(); ++worker)
    cpu::multiply(values_[worker].data() + first, end - first, weight(worker));
}

// In a sum of levels each worker has a say by its share of the rows, whatever the size of its gradients.
void WorkerSums::find_factors(const PackedTensors& tensors) {
  const int all = model_state_.workers.count().all;
  const double level_of_mean = most_level(settings_, all) / cut_off(settings_);
  for (const PackedTensors::Part& part : tensors.parts()) {
    const TensorSpan& tensor = tensors_[part.tensor];
    if (part.at != tensor.first) continue;  // its first part had it
    for (std::size_t worker = 0; worker < values_.size(); ++worker) {
      const double scale = scale_of(settings_.communication, values_[worker].data() + tensor.first, tensor.count);
      const double factor = scale > 0 ? level_of_mean / scale * all * weight(worker) : 0;
      factors_[worker][part.tensor] = static_cast<float>(std::min(factor, double{std::numeric_limits<float>::max()}));
    }
  }
}

void WorkerSums::start_coded(const PackedTensors& tensors) {
  const WorkerCount& count = model_state_.workers.count();
  std::vector<WorkerValues> workers;
  for (std::size_t worker = 0; worker < values_.size(); ++worker) {
    workers.push_back({values_[worker], {}, factors_[worker].data(), static_cast<std::uint32_t>(rows_[worker])});
    if (settings_.error_feedback) workers.back().residual = model_state_.workers.residuals()[worker];
  }
  const CodingSettings settings{settings_.communication, most_level(settings_, count.all),
                                mix(step_->seed, step_->updates_done)};
  pending_.start([&] {
    auto coding =
        std::make_unique<TimedCoding>(make_sum_coding(settings, tensors, std::move(workers), model_state_.model.grads(),
                                                      model_state_.workers.sum_residual()),
                                      pending_);
    return team_.start_sum(CodedSum{tensors.count(), count.own, std::move(coding), &memory_});
  });
}

// What is queued here is captured with the step, whose rows, of all ranks, are the same whenever it is replayed.
void WorkerSums::start_on_device(std::size_t first, std::size_t end) {
  const Span values = values_.front().subspan(first, end - first);
  const Index rows = rows_.front();
  if (rows == 0) {
    backend_.fill(values, 0);  // values of a past step
  } else if (adds_directions()) {
    backend_.lion_directions(*step_, values, model_state_.workers.momenta().front().subspan(first, end - first));
  }
  const int all = model_state_.workers.count().all;
  std::vector<CodedTensor> tensors;
  if (has_levels(settings_.communication))
    for (const TensorSpan& tensor : tensors_)
      if (tensor.first >= first && tensor.first + tensor.count <= end)
        tensors.push_back({tensor.first - first, tensor.count});
  CodedPart part{.values = values,
                 .code = code_of(settings_.communication),
                 .weight = adds_directions() ? weight(0) : 1,
                 .most_level = most_level(settings_, all),
                 .mean_level = static_cast<float>(most_level(settings_, all) / cut_off(settings_) * all * weight(0)),
                 .geometric = settings_.communication == Communication::levels8_l0,
                 .tensors = tensors,
                 .rows = static_cast<std::uint32_t>(rows),
                 .offset = first};
  if (settings_.error_feedback) {
    part.residual = model_state_.workers.residuals().front().subspan(first, end - first);
    part.sum_residual = model_state_.workers.sum_residual().subspan(first, end - first);
  }
  part_sent_[first] = device_->start_coded(part);
}

void WorkerSums::add_plainly(std::size_t first, std::size_t end) {
  const Span total = model_state_.model.grads().subspan(first, end - first);
  if (values_.size() == 1 && values_.front().data() == model_state_.model.grads().data()) return plain_->start(total);
  std::vector<std::span<const float>> summands;
  for (const Span values : values_) summands.push_back(values.subspan(first, end - first));
  team_.sum_summands(summands, model_state_.workers.count().all, total);
  sent_ += sum_bytes(Communication::fp32, static_cast<double>(total.size()), team_.size());
}

const std::vector<PackedTensors>& WorkerSums::tensors_in(std::size_t first, std::size_t end) {
  const auto [found, fresh] = packed_.try_emplace(first);
  std::vector<PackedTensors>& sums = found->second;
  if (!fresh && !sums.empty()) return sums;
  const std::size_t most = most_values(settings_.communication, model_state_.workers.count().own, team_.size());
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const TensorSpan& tensor = tensors_[t];
    if (tensor.first < first || tensor.first + tensor.count > end) continue;
    for (std::size_t at = 0; at < tensor.count;) {
      if (sums.empty() || sums.back().count() == most) sums.emplace_back();
      const std::size_t some = std::min(tensor.count - at, most - sums.back().count());
      sums.back().add(tensor.first + at, some, t);
      at += some;
    }
  }
  return sums;
}

void WorkerSums::move() { backend_.lion_move(*step_, model_state_.model.params(), model_state_.model.grads()); }

void WorkerSums::end_step() {
  for (const auto& [first, sent] : part_sent_) sent_ += sent;
  if (!adds_directions() || !averages_momenta(settings_.momenta, model_state_.optimizer.steps())) return;
  const Timer timer;
  std::vector<float> weights;
  for (std::size_t worker = 0; worker < rows_.size(); ++worker) weights.push_back(weight(worker));
  for (const ArenaSpan& span : averaged_) average(span, weights);
  pending_.waited(timer.seconds());
}

void WorkerSums::average(const ArenaSpan& span, const std::vector<float>& weights) {
  const WorkerArrays& workers = model_state_.workers;
  std::vector<Span> momenta;
  for (const Span momentum : workers.momenta()) momenta.push_back(span_at(momentum, span));
  sent_ += average_momenta(backend_, momenta, weights, workers.count().all, team_);
}

void WorkerSums::end() {
  const WorkerArrays& workers = model_state_.workers;
  sent_ += average_momenta(backend_, workers.momenta(), workers.count().all, team_);
}

double WorkerSums::take_sent() { return static_cast<double>(memory_.take_sent()) + std::exchange(sent_, 0); }

}  // namespace mrmf
