#include "src/data/class_balance.hpp"

#include <algorithm>

#include "io/rows/balanced_draws.hpp"
#include "io/rows/labels.hpp"
#include "kernels/errors.hpp"

namespace mrmf {

std::vector<Index> class_counts(const DatasetSpec& spec, const DatasetShape& shape, Comm& comm) {
  std::vector<Index> counts(static_cast<std::size_t>(spec.form.classes));
  collective_try(comm, [&] {
    const Range own = piece(shape.samples, comm.rank(), comm.size());
    if (own.count > 0) counts = Labels(spec, shape, own).counts();
  });
  comm.sum(std::span(counts));
  return counts;
}

namespace {

constexpr Index kRare = 3;  // so many times as often is another class, or a no

}  // namespace

bool some_are_rare(const std::vector<Index>& counts) {
  Index least = 0, most = 0;
  for (const Index count : counts) {
    if (count > 0) least = least == 0 ? count : std::min(least, count);
    most = std::max(most, count);
  }
  return least > 0 && most >= kRare * least;
}

std::vector<Index> rarely_yes(const ChannelFacts& labels) {
  std::vector<Index> rare;
  for (std::size_t c = 0; c < labels.mean.size(); ++c) {
    if (labels.mean[c] > 0 && labels.mean[c] * (1 + kRare) <= 1) rare.push_back(static_cast<Index>(c));
  }
  return rare;
}

void resolve_class_weights(Config& config, const DatasetShape& train, Comm& comm) {
  TrainingConfig& training = config.training;
  if (!training.balanced_weights || !training.loss.class_weights.empty()) return;
  const std::vector<Index> counts = class_counts(config.data.train, train, comm);
  double all = 0;
  for (const Index count : counts) all += static_cast<double>(count);
  for (const Index count : counts)
    training.loss.class_weights.push_back(
        count == 0 ? 1.0F
                   : static_cast<float>(all / (static_cast<double>(counts.size()) * static_cast<double>(count))));
}

std::shared_ptr<const ClassBalance> class_balance(const DataConfig& data, const Split& train, Comm& team) {
  if (data.sampling != Sampling::balanced) return nullptr;
  std::vector<std::int64_t> found(static_cast<std::size_t>(train.shape.samples));
  const Range own = visited_rows(train.order);
  // From 1 on, so that a sum over the ranks tells all.
  for (Index id = own.first; id < own.first + own.count; ++id)
    found[static_cast<std::size_t>(id)] = train.store->class_of(id) + 1;
  if (!visits_all(train.order)) team.sum(std::span(found));
  std::vector<std::int32_t> classes;
  classes.reserve(found.size());
  for (const std::int64_t one : found) classes.push_back(static_cast<std::int32_t>(one - 1));
  auto balance = std::make_shared<ClassBalance>(balance_classes(std::move(classes), train.order));
  if (const std::string text = unbalanced_text(balance->quotas); !text.empty())
    throw ConfigError(
        "data.sampling = \"balanced\": " + text +
        "; set data.shuffle_over = \"all\", or mix the rows, or use training.class_weights = \"balanced\"");
  return balance;
}

}  // namespace mrmf
