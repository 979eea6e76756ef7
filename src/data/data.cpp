#include "src/data/data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "io/rows/duplicate_rows.hpp"
#include "io/rows/labels.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "src/data/classes.hpp"
#include "src/data/normalisation_and_float32_precision.hpp"
#include "src/data/sliding_window_inference.hpp"
#include "src/plan/plan.hpp"
#include "src/system/host_info.hpp"

namespace mrmf {
namespace {

constexpr double kGiga = 1e9;
constexpr Extent kOriginal{1, 1, 1};

/// The memory that this rank may use.
struct Budget {
  double host = 0;  // bytes
  int ranks = 1;    // ranks that share it
  Index rank() const { return static_cast<Index>(host / ranks); }
};

Index visited_count(const DataPart& part) { return visited_rows(part.order).count; }
Index sample_bytes(const DataPart& part) { return part.shape.read_sample().per_sample() * size_of(part.shape.type); }
Index label_bytes(const DataPart& part) {
  return visited_count(part) * part.shape.label.per_sample() * size_of(part.shape.label_type);
}

// Bytes of all samples and of the coarse copies kept beside them.
Index bytes_in_memory(const DataPart& part, Averaging averaging, const std::vector<Extent>& resolutions) {
  Index sample = sample_bytes(part);
  for (const Extent& resolution : resolutions)
    if (resolution != kOriginal && averaging == Averaging::load)
      sample += coarse_shape(part.shape.read_sample(), resolution).per_sample() * size_of(ElementType::float32);
  return visited_count(part) * sample;
}

Index whole_bytes(const DataPart& part, const DataConfig& config) {
  std::vector<Extent> resolutions;
  for (const auto& [resolution, rows] : part.batch_rows) resolutions.push_back(resolution);
  return bytes_in_memory(part, config.averaging, resolutions);
}

// The settings as this part's.
StoreSettings of_part(StoreSettings settings, const DataPart& part) {
  settings.patch = part.patch;
  return settings;
}

Index bytes_streamed(const DataPart& part, const StoreSettings& settings, const Extent& resolution) {
  const auto rows = part.batch_rows.find(resolution);
  return SampleStore::plan(part.shape, visited_rows(part.order), settings, resolution,
                           rows == part.batch_rows.end() ? 1 : rows->second)
      .bytes;
}

// The largest need of any resolution; they follow one after the other.
Index least_bytes(const DataPart& part, const StoreSettings& settings) {
  Index least = 0;
  for (const auto& [resolution, rows] : part.batch_rows)
    least = std::max(
        least,
        SampleStore::plan(part.shape, visited_rows(part.order), of_part(settings, part), resolution, rows).least);
  return least;
}

std::string amount(double bytes) {
  return bytes < 0.1 * kGiga ? fmt::format("{:.3g} MB", bytes / 1e6) : fmt::format("{:.3g} GB", bytes / kGiga);
}

template <typename Of>
Index total(const std::vector<DataPart>& parts, Of of) {
  return std::accumulate(parts.begin(), parts.end(), Index{0},
                         [&](Index sum, const DataPart& part) { return sum + of(part); });
}

[[noreturn]] void too_little(const Budget& budget, const std::string& what, Index needed, const std::string& advice) {
  throw ConfigError(fmt::format(
      "data.memory gives {} ({} per node, {} rank{} on it), but {} need {}; set it to at least {}, {}",
      amount(static_cast<double>(budget.rank())), amount(budget.host), budget.ranks, budget.ranks == 1 ? "" : "s", what,
      amount(static_cast<double>(needed)), amount(1.01 * static_cast<double>(needed) * budget.ranks), advice));
}

// Shares the memory in proportion to the data sets' sizes, but gives each at least its minimum.
std::vector<StoreSettings> share(const DataConfig& config, const std::vector<DataPart>& parts, const Budget& budget) {
  StoreSettings bare{true, config.averaging, 0};
  bare.making = row_making(config.train);  // both splits are stored alike
  const Index there = budget.rank() - total(parts, label_bytes);
  const Index least = total(parts, [&](const DataPart& part) { return least_bytes(part, bare); });
  const Index all = total(parts, [&](const DataPart& part) { return whole_bytes(part, config); });
  if (least > there)
    too_little(budget, "labels, one batch and the next", least + budget.rank() - there,
               "or use a smaller training.batch");
  std::vector<StoreSettings> stores;
  for (const DataPart& part : parts) {
    const double fraction =
        static_cast<double>(whole_bytes(part, config)) / static_cast<double>(std::max<Index>(all, 1));
    stores.push_back(of_part(bare, part));
    stores.back().budget = least_bytes(part, bare) + static_cast<Index>(fraction * static_cast<double>(there - least));
  }
  return stores;
}

std::string stream_text(const std::vector<DataPart>& parts, const std::vector<StoreSettings>& stores, Comm& team,
                        int sharing) {
  std::string text;
  std::map<Extent, std::pair<double, double>> kept;  // kept, and all
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (const auto& [resolution, rows] : parts[i].batch_rows) {
      const Range rows_here = visited_rows(parts[i].order);
      const Index cached = SampleStore::plan(parts[i].shape, rows_here, stores[i], resolution, rows).cached;
      kept[resolution].first += static_cast<double>(std::min(cached, rows_here.count));
      kept[resolution].second += static_cast<double>(rows_here.count);
    }
  for (auto& [resolution, counts] : kept)
    text +=
        fmt::format("{}{:.0f} of {:.0f} samples at {}", text.empty() ? "" : ", ", team.sum(counts.first) / sharing,
                    team.sum(counts.second) / sharing, resolution_text(resolution, parts.front().shape.sample.axes));
  return text;
}

}  // namespace

Index data_bytes(const std::vector<DataPart>& parts, const std::vector<StoreSettings>& stores,
                 const std::vector<Extent>& resolutions) {
  Index bytes = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Index most = 0;
    if (!stores[i].stream) most = bytes_in_memory(parts[i], stores[i].averaging, resolutions);
    for (const Extent& resolution : resolutions)
      if (stores[i].stream) most = std::max(most, bytes_streamed(parts[i], stores[i], resolution));
    bytes += most + label_bytes(parts[i]);
  }
  return bytes;
}

MemoryBudget budget_memory(const DataConfig& config, const std::vector<DataPart>& parts, Comm& team, int host_ranks,
                           int sharing) {
  const Budget budget{config.memory ? *config.memory * kGiga : kShareOfMemory * host_memory(), host_ranks};
  const Index needed =
      total(parts, label_bytes) + total(parts, [&](const DataPart& part) { return whole_bytes(part, config); });
  const bool fits = !team.any(needed > budget.rank());
  MemoryBudget plan;
  if (config.load == LoadRule::memory || (config.load == LoadRule::automatic && fits)) {
    collective_try(team, [&] {
      if (config.memory && needed > budget.rank())
        too_little(budget, "all samples at once (data.load = \"memory\")", needed, "or let data.load be \"auto\"");
    });
    for (const DataPart& part : parts) plan.stores.push_back(of_part({false, config.averaging, 0}, part));
    plan.text = fmt::format("in memory, {} of them", amount(team.sum(static_cast<double>(needed))));
  } else {
    collective_try(team, [&] { plan.stores = share(config, parts, budget); });
    plan.text = "streamed; in memory stay " + stream_text(parts, plan.stores, team, sharing);
  }
  if (team.size() > sharing && std::ranges::any_of(parts, [](const DataPart& part) { return visits_all(part.order); }))
    plan.text += ", training samples counted for every rank";
  plan.text += fmt::format(" (data.memory: {} per node)", amount(budget.host));
  return plan;
}

namespace {

Split make_split(const DatasetSpec& spec, DatasetShape shape, const DataConfig& config, Comm& team) {
  Split split;
  split.shape = std::move(shape);
  split.shape.label_type = label_storage(spec.form);  // the number of classes may have been resolved meanwhile
  split.order = order_settings(config, split.shape.samples, team.size(), team.rank());
  return split;
}

// part: "validation" or "test".
void require_same_samples(const FoundDataset& train, const FoundDataset& other, const std::string& part) {
  const DatasetShape &there = train.shape, &here = other.shape;
  if (there.sample != here.sample || there.label != here.label)
    throw DataError(fmt::format(
        "training and {0} data differ: samples {1} and {2}, labels {3} and {4}; check data.train and data.{0}", part,
        to_string(there.sample), to_string(here.sample), to_string(there.label), to_string(here.label)));
  require_same_names(there, here, part);
  require_same_units(train, other, part);
}

// The other side of data.part, which no training step sees.
DatasetSpec held_out_rows(const DatasetSpec& train) {
  DatasetSpec spec = train;
  spec.piece.held = true;
  return spec;
}

}  // namespace

std::string no_label_text(const DatasetSpec& spec, const TrainingConfig& training, const std::string& part) {
  const std::string missing = "missing by attributes of the file, such as _FillValue";
  return fmt::format("no label of the {} data ('{}' of {}{}) counts: all are {}", part, spec.labels, spec.files.front(),
                     spec.files.size() > 1 ? ", ..." : "",
                     training.ignore
                         ? fmt::format("{}, which training.ignore takes for no label, or {}", *training.ignore, missing)
                         : missing);
}

Data::Data(const Config& config, Comm& team, Reading reading, const Known* known)
    : config_(config), host_ranks_(ranks_of_same(host_name(), team).size()) {
  const Timer timer;
  const DatasetSpec &train = config.data.train, &validation = config.data.validation;
  train_ = make_split(train, known != nullptr ? known->train : inspect_dataset(train, team), config.data, team);
  require_channels(config.data, train_.shape.sample);
  const bool both = known != nullptr && known->validation;
  validation_ =
      make_split(validation, both ? *known->validation : inspect_dataset(validation, {train, train_.shape}, team),
                 config.data, team);
  require_patch(config, train_.shape.sample, train_.shape.label);
  if (known != nullptr && known->held_out) {
    const DatasetSpec held = held_out_rows(train);
    held_out_ = make_split(held, inspect_dataset(held, {train, train_.shape}, team), config.data, team);
  }
  resolve_labels(config_, train_.shape, make_plan(config_).resolutions());
  require_same_samples({train, train_.shape}, {validation, validation_.shape}, "validation");
  require_same_data(train, &train_.shape, team);
  if (!have_same_headers(validation, train)) require_same_data(validation, &validation_.shape, team);
  if (known == nullptr) resolve_normalisation(config_, train_.shape, team);
  require_augmentable(config.data, train_.shape.sample, train_.shape.label, make_plan(config_).resolutions());
  train_.augment = config.data.augment;
  train_.boxes = config.data.patch.any();
  if (reading == Reading::now) read(DataShare{team});
  load_seconds_ = timer.seconds();
}

std::vector<Split*> Data::splits() {
  std::vector<Split*> all{&train_, &validation_};
  if (held_out_) all.push_back(&*held_out_);
  return all;
}

void Data::read(const DataShare& share) {
  Comm &team = share.team, &all = share.sharers != nullptr ? *share.sharers : team;
  for (Split* split : splits()) {
    split->store.reset();  // before reading: there may not be room for both
    split->order = order_settings(config_.data, split->shape.samples, team.size(), team.rank());
  }
  train_.batch_rows = largest_batches(config_, [](Index batch) { return batch; });
  const bool windows = config_.data.patch.any();  // whole samples, one after the other
  for (Split* split : splits()) {
    if (split == &train_) continue;
    split->order.shuffle = false;
    split->batch_rows =
        largest_batches(config_, [&](Index batch) { return windows ? 1 : validation_batch(split->order, batch); });
  }
  std::vector<DataPart> parts;
  for (Split* split : splits()) {
    std::erase_if(split->batch_rows, [&](const auto& rows) {
      return !resolutions_.empty() && std::ranges::find(resolutions_, rows.first) == resolutions_.end();
    });
    parts.push_back(
        {split->shape, split->order, split->batch_rows, split->boxes ? config_.data.patch : PatchSettings{}});
  }
  const MemoryBudget memory = budget_memory(config_.data, parts, all, host_ranks_, all.size() / team.size());
  const auto open = [&](Split& split, const DatasetSpec& spec, const StoreSettings& settings) {
    StoreSettings units = settings;
    units.sample_units = sample_map(config_, split.shape.sample);
    units.label_units = label_map(config_, split.shape.label);
    split.store = std::make_unique<SampleStore>(spec, split.shape, visited_rows(split.order), team, units);
  };
  open(train_, config_.data.train, memory.stores[0]);
  train_.kinds = {config_.data.vectors, sample_map(config_, train_.shape.sample),
                  label_map(config_, train_.shape.label), config_.data.train.mask,
                  config_.data.train.form.kind == LabelKind::numbers};
  open(validation_, config_.data.validation, memory.stores[1]);
  if (held_out_) open(*held_out_, held_out_rows(config_.data.train), memory.stores[2]);
  for (Split* split : splits()) {
    const Index own = split->store->labelled();
    split->labelled = visits_all(split->order) ? own : static_cast<Index>(team.sum(static_cast<double>(own)));
  }
  train_.order.balance = class_balance(config_.data, train_, team);
  if (train_.labelled == 0) throw DataError(no_label_text(config_.data.train, config_.training, "training"));
  way_ = fmt::format("{} {}; {}", to_string(train_.shape.type), memory.text, train_.store->way());
}

bool reads_blocks(const DataConfig& data) {
  return !data.augment.any() && !data.patch.any() && data.train.layout == SampleLayout::as_stored;
}

// All ranks come to the same answer here: every team is a row of neighbours in the world, and a block is told from
// another by its grid's resolutions, not by its own positions.
void Data::load(const DataShare& share) {
  const bool blocks = share.block && reads_blocks(config_.data);
  const std::vector<Extent> resolutions = blocks ? share.resolutions : std::vector<Extent>{};
  const bool same = train_.order.ranks == share.team.size() && train_.order.rank == share.team.rank();
  if (loaded() && same && resolutions == resolutions_) return;
  const Timer timer;
  const bool first = !loaded();
  resolutions_ = resolutions;
  for (Split* split : splits()) split->shape.block = blocks ? share.block : std::nullopt;
  read(share);
  (first ? load_seconds_ : later_seconds_) += timer.seconds();
}

double Data::make_ready(const Extent& resolution) {
  const Timer timer;
  for (Split* split : splits()) {
    const auto rows = split->batch_rows.find(resolution);
    split->store->make_ready(resolution, rows == split->batch_rows.end() ? 1 : rows->second);
  }
  return timer.seconds() + std::exchange(later_seconds_, 0.0);
}

void Data::release(const Extent& resolution) {
  for (Split* split : splits()) split->store->release(resolution);
}

std::vector<Index> Data::class_counts(Comm& team) const {
  const std::vector<Index> here = train_.store->class_counts();
  std::vector<std::int64_t> counts(here.begin(), here.end());
  if (!counts.empty()) team.sum(counts);
  return {counts.begin(), counts.end()};
}

void require_distinct_rows(const DataConfig& data, const DatasetShape& train, const DatasetShape& validation,
                           const DatasetShape* test, Comm& comm) {
  if (data.duplicates != DuplicateRule::refuse) return;
  std::vector<UsedDataset> splits{{{data.train, train}, Subset::train},
                                  {{data.validation, validation}, Subset::validation}};
  if (test != nullptr) splits.push_back({{data.test, *test}, Subset::test});
  require_distinct_rows(splits, comm);
}

bool has_test_split(const DataConfig& data) {
  const bool of_its_own = data.test.choice.part == Subset::all;
  return !data.test.samples.empty() && (of_its_own || data.split.test > 0 || !data.split.test_roles.empty());
}

std::optional<DatasetShape> test_headers(const DataConfig& data, const DatasetShape& train, Comm& comm) {
  if (!has_test_split(data) || data.test.choice.part != Subset::all) return {};
  DatasetSpec headers = data.test;
  headers.not_finite = NotFiniteRule::refuse;  // nothing is looked for
  DatasetShape test = inspect_dataset(headers, {data.train, train}, comm);
  require_same_samples({data.train, train}, {headers, test}, "test");
  return test;
}

std::vector<std::string> skipped_lines(const DatasetSpec& spec, const DatasetShape& shape) {
  std::vector<std::string> lines;
  if (shape.skipped.empty()) return lines;
  lines.push_back(fmt::format("data: {} of {} rows of {} are left out, because they or their labels are not finite",
                              shape.skipped.size(), shape.samples + std::ssize(shape.skipped), spec.samples));
  for (const std::string& rows : some_rows(spec, shape, shape.skipped))
    lines.push_back((rows.starts_with("...") ? "data: " : "data: left out of ") + rows);
  return lines;
}

std::vector<std::string> some_rows(const DatasetSpec& spec, const DatasetShape& shape, const std::vector<Index>& rows) {
  constexpr std::size_t kLines = 4, kLetters = 160;
  std::vector<std::string> texts = rows_texts(spec, shape, rows);
  const std::size_t files = texts.size();
  if (files > kLines) texts.resize(kLines);
  for (std::string& text : texts)
    if (text.size() > kLetters) text = text.substr(0, text.rfind(", ", kLetters)) + ", ...";
  if (files > kLines) texts.push_back(fmt::format("... and of {} more files", files - kLines));
  return texts;
}

Index boxes_of_each(const DataConfig& config, const Shape& sample, const Extent& resolution) {
  return config.patch.any() ? patches_of(config.patch, coarse_shape(sample, resolution)) : 1;
}

OrderSettings order_settings(const DataConfig& config, Index samples, int ranks, int rank) {
  OrderSettings order;
  order.samples = samples;
  order.ranks = ranks;
  order.rank = rank;
  order.shards = config.shards > 0 ? config.shards : ranks;
  order.shuffle = config.shuffle;
  order.across = config.shuffle_over == ShuffleOver::all;
  return order;
}

std::map<Extent, Index> largest_batches(const Config& config, const std::function<Index(Index)>& rows_of) {
  std::map<Extent, Index> largest;
  Index of_all = 0;
  for (const Phase& phase : make_plan(config).phases()) {
    const Index rows = rows_of(phase.batch);
    Index& most = largest[phase.resolution];
    most = std::max(most, rows);
    of_all = std::max(of_all, rows);
  }
  if (config.data.averaging == Averaging::epoch)
    for (auto& [resolution, rows] : largest) rows = of_all;
  return largest;
}

Index validation_batch(const OrderSettings& order, Index batch) {
  const Index least = order.shards / order.ranks;
  return std::max(least, std::min(batch, largest_batch(order)));
}

}  // namespace mrmf
