#include "layers/loss_terms.hpp"

#include <algorithm>

namespace mrmf {
namespace {

// Terms are of all numbers of an output alike, whatever its positions: numbers as so many positions, over which a
// backend's threads may share them out, and yes or no as so many outputs.
Shape flat(const Shape& shape, bool numbers) {
  if (numbers) return {.n = shape.n, .spatial = {1, 1, shape.per_sample()}, .channels = 1, .axes = 1};
  return {.n = shape.n, .channels = shape.per_sample()};
}

LossSettings weighted(const LossTerm& term) {
  LossSettings settings = term.loss;
  for (float& weight : settings.weights) weight *= term.weight;
  return settings;
}

}  // namespace

LossTerms::LossTerms(Backend& backend, const Network& network)
    : backend_(backend), settings_(network.parts()), output_(network.output()), reads_{network.size()} {
  if (!backend.synchronous())
    throw ConfigError("training.terms: networks of several parts train on the CPU; set run.device = \"cpu\"");
  Index largest = 0;
  for (std::size_t i = 0; i < settings_.terms.size(); ++i) {
    const LossTerm& settings = settings_.terms[i];
    const TermInputs& inputs = network.term_inputs()[i];
    Term term;
    term.numbers = settings.loss.task() == Task::regression;
    term.output = flat(network.output_numbered(inputs.output), term.numbers);
    term.loss = backend.loss(weighted(settings), term.output, term.output.channels);
    term.first = reads_.size();
    reads_.push_back(inputs.output);
    term.reads_target = inputs.target.has_value();
    if (term.reads_target) {
      reads_.push_back(*inputs.target);
    } else {
      term.value = backend.allocate(term.output.count());
      backend.fill(term.value.span(), settings.value);
    }
    largest = std::max(largest, term.output.count());
    terms_.push_back(std::move(term));
  }
  scratch_ = backend.allocate(largest);
}

void LossTerms::backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor, Tensor) {
  MRMF_CHECK(false, "loss terms have a call of their own");
}

void LossTerms::run(const StepContext& step, std::span<const ConstTensor> x, std::span<const Tensor> dx, Span sums) {
  backend_.fill(sums, 0);
  for (const Tensor& one : dx)
    if (!one.data.empty()) backend_.fill(one.data, 0);
  double all = 0;
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    if (!settings_.computes(step.turn, settings_.terms[i])) continue;
    const Span sum = sums.subspan(1 + i, 1);
    run(step, terms_[i], x, dx, sum);
    all += sum[0];
  }
  sums[0] = static_cast<float>(all);
}

void LossTerms::run(const StepContext& step, Term& term, std::span<const ConstTensor> x, std::span<const Tensor> dx,
                    Span sum) {
  const Index rows = x[term.first].shape.n;
  const auto count = static_cast<std::size_t>(rows * term.output.per_sample());
  const ConstTensor y{term.output.with_rows(rows), x[term.first].data};
  const ConstSpan target = term.reads_target ? x[term.first + 1].data : ConstSpan(term.value.span().first(count));
  const Span wanted = dx[term.first].data;
  const Span dy = wanted.empty() ? scratch_.span().first(count) : wanted;
  term.loss->run(step, y, {term.output.with_rows(rows), target}, dy, sum);
  if (!term.reads_target || !term.numbers || dx[term.first + 1].data.empty()) return;
  std::ranges::transform(dy, dx[term.first + 1].data.begin(), [](float slope) { return -slope; });
}

}  // namespace mrmf
