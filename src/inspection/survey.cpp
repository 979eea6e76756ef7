#include "src/inspection/survey.hpp"
#include "src/data/normalisation_and_float32_precision.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/hdf5/file.hpp"
#include "io/rows/class_values.hpp"
#include "io/rows/not_finite.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/sample_order.hpp"
#include "mpi/comm.hpp"
#include "src/data/classes.hpp"
#include "src/data/data.hpp"
#include "src/data/statistics.hpp"
#include "src/inspection/dataset_guess.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

// The texts of all ranks, one after the other, each once. Collective.
void share(std::vector<std::string>& texts, Comm& comm) {
  std::vector<std::string> all;
  for (int rank = 0; rank < comm.size(); ++rank) {
    std::string lines = fmt::format("{}", fmt::join(texts, "\n"));
    comm.broadcast(lines, rank);
    std::istringstream from(lines);
    for (std::string line; std::getline(from, line);) add_once(all, line);
  }
  texts = std::move(all);
}

// What the headers of all files tell of samples or labels; every rank looks at some of them. Collective.
NumbersFound numbers_found(const DatasetSpec& spec, const DatasetShape& all, const std::vector<std::string>& names,
                           const Shape& shape, Comm& comm) {
  NumbersFound found;
  found.name = fmt::format("{}", fmt::join(names, ", "));
  found.shape = shape.channels > 0 ? to_string(shape) : "";
  found.row_bytes.resize(spec.files.size());
  const auto files = static_cast<double>(spec.files.size());
  double unpacked = files;
  const RowSources sources(spec, &all, names, {.words = true});
  const Range mine = piece(std::ssize(spec.files), comm.rank(), comm.size());
  collective_try_each(comm, mine.first, mine.count, [&](Index file) {
    const auto open = sources.at(static_cast<std::size_t>(file));
    for (const auto& rows : *open) {
      found.row_bytes[static_cast<std::size_t>(file)] += rows->row_bytes();
      add_once(found.types, rows->holds_words() ? "words" : to_string(rows->packing().stored));
      found.limited = found.limited || rows->packing().least || rows->packing().most;
      if (rows->holds_words()) continue;
      add_once(found.storage, rows->way().text);
      if (!rows->way().direct) unpacked = std::min(unpacked, static_cast<double>(file));
    }
  });
  for (std::vector<std::string>* texts : {&found.types, &found.storage}) share(*texts, comm);
  comm.sum(found.row_bytes);
  found.limited = comm.any(found.limited);
  unpacked = comm.min(unpacked);
  if (unpacked < files) found.unpacked = static_cast<std::size_t>(unpacked);
  return found;
}

// Bytes of the samples in the files, unpacked; every file may have its own types.
double bytes_of(const SplitFound& split) {
  double bytes = 0;
  for (std::size_t i = 0; i < split.samples.row_bytes.size(); ++i)
    bytes += static_cast<double>(split.shape.file_samples[i] * split.samples.row_bytes[i]);
  return bytes;
}

// 0 where the network does not fit the labels, so that nobody knows.
Index classes_of(Config config, const DatasetShape& shape) {
  try {
    resolve_labels(config, shape, {{1, 1, 1}});
  } catch (const ConfigError&) {
    return 0;
  }
  return config.data.train.form.classes;
}

// Rows that are not finite are found, and those left out of which nothing can be said. What is missing in a row takes
// only itself away where that is what the user or the file means.
void leave_out(SplitFound& split, Comm& comm) {
  DatasetSpec all = split.spec;
  all.not_finite = NotFiniteRule::skip;
  const std::vector<Index> bad = rows_not_finite(all, split.shape, comm);
  const bool fills = split.spec.not_finite == NotFiniteRule::fill ||
                     (split.spec.not_finite == NotFiniteRule::refuse && !split.samples.packing.empty());
  split.spec.not_finite = fills ? NotFiniteRule::fill : NotFiniteRule::skip;
  if (fills && !bad.empty()) split.not_filled = rows_not_finite(split.spec, split.shape, comm);
  split.shape = without_rows(split.shape, split.spec, fills ? split.not_filled : bad);
  split.not_finite = bad;
}

// The headers alone: rows that are not finite are looked for later. `first` is the other part, if it is known.
SplitFound inspect(const std::string& part, const DatasetSpec& spec, const SplitFound* first, Comm& comm) {
  SplitFound split;
  split.part = part;
  split.spec = spec;
  DatasetSpec headers = spec;
  headers.not_finite = NotFiniteRule::refuse;
  split.shape =
      first == nullptr ? inspect_dataset(headers, comm) : inspect_dataset(headers, {first->spec, first->shape}, comm);
  if (first != nullptr && have_same_headers(spec, first->spec)) {
    split.samples = first->samples;
    split.labels = first->labels;
    return split;
  }
  split.samples = numbers_found(spec, split.shape, spec.sample_names(), split.shape.sample, comm);
  split.labels = numbers_found(spec, split.shape, spec.label_names(), split.shape.label, comm);
  return split;
}

// What the headers do not tell.
void inspect_split(SplitFound& split, const Config& config, bool headers_only, Comm& comm) {
  for (const auto& [found, names] :
       {std::pair(&split.samples, split.spec.sample_names()), std::pair(&split.labels, split.spec.label_names())}) {
    const std::vector<PackingCount> counts = count_packings(split.spec, names, comm);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      for (const std::string& text : packing_texts(counts[i])) add_once(found->packing, text);
      for (const std::string& text : not_applied_texts(names[i], counts[i])) add_once(found->not_applied, text);
      found->scaled_in_part = found->scaled_in_part || counts[i].scaled_in_part();
    }
  }
  if (!headers_only) leave_out(split, comm);
  split.bytes = bytes_of(split);
  if (headers_only) return;
  split.rows.emplace(split.shape.samples, split.shape.sample.per_sample(),
                     split.spec.mask ? split.shape.sample.channels : 0);
  split.samples.facts =
      channel_facts(numbers_of(split.spec, split.shape, NumbersOf::samples), false, comm, &*split.rows);
  if (split.spec.form.kind == LabelKind::classes) {
    if (split.spec.form.classes == 0) split.spec.form.classes = classes_of(config, split.shape);
    if (split.spec.form.classes > 0) {
      split.class_counts = class_counts(split.spec, split.shape, comm);
      split.labels.missing =
          static_cast<double>(split.shape.samples * split.shape.label.per_sample() -
                              std::accumulate(split.class_counts.begin(), split.class_counts.end(), Index{0}));
    }
  } else {
    split.labels.facts = channel_facts(numbers_of(split.spec, split.shape, NumbersOf::labels), false, comm);
  }
  for (NumbersFound* const found : {&split.samples, &split.labels})
    if (found->facts) found->missing = found->facts->missing();
}

// Numbers that a network learns from badly: far from 0 for their spread, very large, very small, or of channels whose
// sizes are orders apart.
std::optional<std::string> odd_scale(const ChannelFacts& facts) {
  constexpr double kFarFromZero = 10, kOrders = 30;
  const auto [least, most] = std::ranges::minmax(facts.deviation);
  if (most > kOrders || (most > 0 && most < 1 / kOrders)) return fmt::format("their deviation is {:.3g}", most);
  if (least > 0 && most / least > kOrders)
    return fmt::format("the deviations of their channels are {:.3g} to {:.3g}", least, most);
  for (std::size_t c = 0; c < facts.mean.size(); ++c)
    if (std::abs(facts.mean[c]) > kFarFromZero * std::max(facts.deviation[c], 0.1))
      return fmt::format("the mean of channel {} is {:.3g} and its deviation {:.3g}", c, facts.mean[c],
                         facts.deviation[c]);
  return {};
}

void advise_on_numbers(const Config& config, const SplitFound& split, std::vector<std::string>& advice) {
  bool samples_lost = false;  // then channels may only look constant
  const auto look = [&](const NumbersFound& numbers, const Normalisation& units, NumbersOf which) {
    if (!numbers.facts) return;
    const std::string of = to_string(which);
    if (const auto lost = lost_digits(split.spec, split.shape, which, *numbers.facts)) {
      advice.push_back(*lost);
      samples_lost = samples_lost || which == NumbersOf::samples;
      return;
    }
    if (std::string far = far_value_text(numbers_of(split.spec, split.shape, which), numbers.name); !far.empty())
      advice.push_back(std::move(far));
    if (const auto numbered = like_identifiers(split.spec, split.shape, which, *numbers.facts))
      advice.push_back(*numbered);
    if (units.mean_std || units.log1p) return;
    ChannelFacts facts = *numbers.facts;
    if (which == NumbersOf::samples && config.data.train.mask) facts.drop_last();
    if (!(std::ranges::min(facts.deviation) > 0)) return;  // mean_std would divide by nothing: told of each channel
    if (const auto odd = odd_scale(facts))
      advice.push_back(fmt::format("{} '{}' as they are will train badly: {}; set data.normalise.{} = \"mean_std\"", of,
                                   numbers.name, *odd, of));
  };
  look(split.samples, config.data.normalise_samples, NumbersOf::samples);
  if (split.spec.form.kind == LabelKind::numbers) look(split.labels, config.data.normalise_labels, NumbersOf::labels);
  const bool divided = config.data.normalise_samples.mean_std && config.data.normalise_samples.std.empty();
  const bool given = config.data.normalise_samples.mean_std && !divided;  // someone has seen to it
  for (std::size_t c = 0; !given && !samples_lost && split.samples.facts && c < split.samples.facts->deviation.size();
       ++c)
    if (split.samples.facts->count[c] == 0)
      advice.push_back(fmt::format("channel {} of '{}' holds nothing but missing numbers; leave it out of the file", c,
                                   split.samples.name));
    else if (split.samples.facts->least[c] == split.samples.facts->most[c])
      advice.push_back(config.data.train.mask && c + 1 == split.samples.facts->count.size()
                           ? "no number is missing, so data.mask adds a channel of ones; leave it out"
                           : fmt::format("channel {} of '{}' is {:g} everywhere: it tells nothing{}", c,
                                         split.samples.name, split.samples.facts->least[c],
                                         divided ? ", and mean_std refuses it" : ""));
  if (config.data.train.not_finite == NotFiniteRule::fill && !split.not_filled.empty())
    advice.push_back(fmt::format(
        "{} {} rows have NaN in labels, or infinity, which data.not_finite = \"fill\" does not fill and which "
        "ends a run; leave those rows out of the files, or set data.not_finite = \"skip\"",
        split.not_filled.size(), split.part));
  if (split.not_finite.empty() || config.data.train.not_finite != NotFiniteRule::refuse) return;
  const std::string fill = split.samples.facts->missing() == 0
                               ? ""
                               : ", \"fill\" to keep them with the mean in the place of what is missing";
  advice.push_back(
      fmt::format("{} {} rows hold NaN or infinity, which ends a run; set data.not_finite = \"skip\" to "
                  "leave them out{}, or mend the files",
                  split.not_finite.size(), split.part, fill));
}

// Numbers of which there is no logarithm where a run would take one.
void advise_on_logarithms(const Config& config, const SplitFound& split, std::vector<std::string>& advice) {
  const auto look = [&](const NumbersFound& numbers, const Normalisation& units, const std::string& of) {
    if (!numbers.facts || !units.log1p) return;
    const double least = numbers.facts->least_of_all();
    if (!(least <= -1)) return;
    advice.push_back(
        fmt::format("{} {} '{}' go down to {:g}, and data.normalise.{} takes the logarithm of 1 + x, which ends a run; "
                    "x must be above -1: take \"mean_std\", or mend the files",
                    split.part, of, numbers.name, least, of));
  };
  look(split.samples, config.data.normalise_samples, "samples");
  look(split.labels, config.data.normalise_labels, "labels");
}

// Attributes by which most numbers are missing often have limits in other units than these are read in.
void advise_on_limits(const SplitFound& split, std::vector<std::string>& advice) {
  for (const NumbersFound* const numbers : {&split.samples, &split.labels})
    if (numbers->limited && numbers->facts && 2 * numbers->facts->missing() > numbers->facts->of_all_channels())
      advice.push_back(fmt::format(
          "most {} numbers of '{}' are missing ({:.0f} of {:.0f}), because they lie outside of valid_min, valid_max or "
          "valid_range, or are fill values{}; are these attributes in the units of the stored numbers? correct them, "
          "or set data.packing = \"ignore\"",
          split.part, numbers->name, numbers->facts->missing(), numbers->facts->of_all_channels(),
          numbers == &split.labels && split.spec.form.ignore ? ", or training.ignore" : ""));
}

// Labels from which nothing can be learnt, or by which nothing can be told.
void advise_on_constant_labels(const Config& config, const SplitFound& split, std::vector<std::string>& advice) {
  const std::string what = fmt::format("the {} labels '{}'", split.part, split.labels.name);
  const auto no_label = [&] {
    advice.push_back(no_label_text(split.spec, config.training, split.part) + "; give it labels, or correct that");
  };
  if (!split.class_counts.empty()) {
    const auto present = std::ranges::count_if(split.class_counts, [](Index count) { return count > 0; });
    if (present == 0) return no_label();
    const auto only = std::ranges::find_if(split.class_counts, [](Index count) { return count > 0; });
    if (present == 1)
      advice.push_back(fmt::format("{} are all of class {}: there is nothing to tell apart", what,
                                   only - split.class_counts.begin()));
  }
  if (!split.labels.facts || split.shape.samples < 2) return;  // a single label is always the same
  const ChannelFacts& facts = *split.labels.facts;
  const bool yes_or_no = split.spec.form.kind == LabelKind::probabilities;
  if (yes_or_no && facts.missing() == facts.of_all_channels()) return no_label();
  const std::vector<bool> constant = constant_channels(split.spec, split.shape, NumbersOf::labels, facts);
  const Normalisation& units = config.data.normalise_labels;
  const bool divided = units.mean_std && units.std.empty() && split.part == "training";
  const bool all = std::ranges::all_of(constant, [](bool one) { return one; });
  const bool seen_to = units.mean_std && !units.std.empty() && !all;  // one channel of several
  for (std::size_t c = 0; c < facts.least.size(); ++c)
    if (facts.count[c] == 0)
      advice.push_back(fmt::format("no label of channel {} of {} counts, so nothing is learnt of it", c, what));
    else if (constant[c] && !seen_to)
      advice.push_back(
          fmt::format("{} are all {:g}{}: {}{}", what, facts.least[c],
                      facts.least.size() > 1 ? fmt::format(" in channel {}", c) : "",
                      yes_or_no ? "there is nothing to tell apart"
                                : "there is nothing to learn from them, and their R^2 has no value",
                      divided ? "; data.normalise.labels = \"mean_std\" refuses them: name other labels" : ""));
}

// What makes up for rare classes.
std::string advice_on_rare(const Config& config, const SplitFound& split) {
  if (split.shape.label.axes == 0)
    return std::string("set training.class_weights = \"balanced\", or data.sampling = \"balanced\"") +
           (config.training.metric ? "" : ", and training.metric = \"f1\"");
  return "set training.loss = [\"cross_entropy\", \"dice\"]";
}

bool sees_to_rare_classes(const Config& config) {
  return config.training.balanced_weights || !config.training.loss.class_weights.empty() ||
         config.data.sampling == Sampling::balanced || config.training.loss.weight(LossKind::dice) > 0 ||
         config.training.loss.gamma > 0;
}

void advise_on_classes(const Config& config, const SplitFound& split, std::vector<std::string>& advice) {
  const auto present = std::ranges::count_if(split.class_counts, [](Index count) { return count > 0; });
  if (present < 2) return;  // told already
  const auto [least, most] = std::ranges::minmax_element(split.class_counts);
  if (*least == 0)
    advice.push_back(fmt::format("class {} never occurs in the {} labels '{}'", least - split.class_counts.begin(),
                                 split.part, split.labels.name));
  else if (some_are_rare(split.class_counts) && split.part == "training" && !sees_to_rare_classes(config))
    advice.push_back(
        fmt::format("class {} occurs {} times and class {} {} times, so that plain cross-entropy may not "
                    "find it; {}",
                    most - split.class_counts.begin(), *most, least - split.class_counts.begin(), *least,
                    advice_on_rare(config, split)));
}

// The same of outputs that are yes or no.
void advise_on_rare_yes(const Config& config, const SplitFound& split, std::vector<std::string>& advice) {
  if (split.spec.form.kind != LabelKind::probabilities || !split.labels.facts || sees_to_rare_classes(config)) return;
  const std::vector<Index> rare = rarely_yes(*split.labels.facts);
  if (rare.empty()) return;
  const double share = split.labels.facts->mean[static_cast<std::size_t>(rare.front())];
  advice.push_back(fmt::format(
      "output {} is a yes in {:.2g} % of the training labels '{}'{}, so that plain cross-entropy may not find "
      "it; set training.loss = [\"binary_cross_entropy\", \"dice\"]",
      rare.front(), 100 * share, split.labels.name,
      rare.size() > 1 ? fmt::format(", and {} more {} rare, too", rare.size() - 1, rare.size() == 2 ? "is" : "are")
                      : ""));
}

void advise_on_storage(const SplitFound& split, std::vector<std::string>& advice) {
  if (!split.samples.unpacked) return;
  const RowSources sources(split.spec, split.shape, split.spec.sample_names());
  const std::string& path = sources.path(*split.samples.unpacked);
  const auto open = sources.at(*split.samples.unpacked);
  const auto rows = std::ranges::find_if(*open, [](const auto& one) { return !one->way().direct; });
  if (rows == open->end()) return;
  const std::string name = sources.names()[static_cast<std::size_t>(rows - open->begin())], way = (*rows)->way().text;
  const std::string more = split.spec.files.size() > 1 ? " (and perhaps the other files)" : "";
  if (way.starts_with("contiguous"))  // h5repack would change nothing
    advice.push_back(
        fmt::format("'{}' is {}, so it is read by one thread: written as plain numbers, such as {} in this "
                    "machine's byte order, it is read by all of them{}",
                    name, way, to_string((*rows)->packing().stored), more));
  else
    advice.push_back(
        fmt::format("'{}' is {}, so it is read by one thread, and streamed samples are unpacked again in every epoch: "
                    "`h5repack -l CONTI {} NEW.h5` makes it contiguous{}",
                    name, way, path, more));
}

// Attributes that say what packed numbers mean are easily lost in some files, and some are not applied.
void advise_on_packing(const SplitFound& split, std::vector<std::string>& advice) {
  for (const NumbersFound* found : {&split.samples, &split.labels})
    for (const std::string& text : found->not_applied) add_once(advice, text);
  for (const NumbersFound* found : {&split.samples, &split.labels})
    if (found->scaled_in_part)
      advice.push_back(
          fmt::format("'{}' of the {} data is scaled by attributes in some {} ({}), and taken as stored, "
                      "though integers, too, in others: are these the same numbers? if not, give them "
                      "scale_factor and add_offset",
                      found->name, split.part, split.spec.rows == RowsBy::groups ? "groups" : "files",
                      fmt::join(found->packing, "; ")));
}

// What is advised after a look at the numbers, on one rank: it may open files again.
void advise(const Config& config, DataFound& found) {
  const SplitFound &train = found.splits[0], &held = found.splits[1];
  if (train.rows && held.rows)
    for (const std::string& line :
         row_advice({train.spec, train.shape, *train.rows}, {held.spec, held.shape, *held.rows}))
      found.advice.push_back(line);
  if (config.data.split.by == SplitBy::rows)
    if (const std::string line = group_advice(config.data.train); !line.empty()) found.advice.push_back(line);
  for (const SplitFound& split : found.splits) {
    advise_on_constant_labels(config, split, found.advice);
    advise_on_classes(config, split, found.advice);
    advise_on_logarithms(config, split, found.advice);
    advise_on_limits(split, found.advice);
    advise_on_packing(split, found.advice);
    if (&split == &train) advise_on_numbers(config, split, found.advice);
    if (&split == &train) advise_on_rare_yes(config, split, found.advice);
  }
  advise_on_storage(train, found.advice);
}

}  // namespace

DataFound survey(const Config& config, bool headers_only, Comm& comm) {
  DataFound found;
  found.splits.push_back(inspect("training", config.data.train, nullptr, comm));
  found.splits.push_back(inspect("validation", config.data.validation, &found.splits.front(), comm));
  require_same_units({found.splits[0].spec, found.splits[0].shape}, {found.splits[1].spec, found.splits[1].shape},
                     "validation");
  const std::optional<DatasetShape> test = test_headers(config.data, found.splits[0].shape, comm);
  require_distinct_rows(config.data, found.splits[0].shape, found.splits[1].shape, test ? &*test : nullptr, comm);
  if (has_test_split(config.data))
    found.splits.push_back(inspect("test", config.data.test, &found.splits.front(), comm));
  for (SplitFound& split : found.splits) inspect_split(split, config, headers_only, comm);
  const SplitFound& train = found.splits[0];
  found.advice = sample_warnings(config, train.shape.sample);
  const SplitFound& held = found.splits[1];
  for (const std::string& line : row_warnings(train.shape.samples, held.shape.samples)) found.advice.push_back(line);
  collective_try_on_root(comm, [&] {
    advise(config, found);
    std::string& unused = found.splits.front().shape.unused;
    if (const std::string groups = unused_groups({train.spec, train.shape}, {held.spec, held.shape}); !groups.empty())
      unused += (unused.empty() ? "" : "; ") + groups;
  });
  return found;
}

}  // namespace mrmf
