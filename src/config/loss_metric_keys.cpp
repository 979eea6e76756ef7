// Keys of the task that have readings of their own: the loss, what labels are, and what is measured. Paths are within
// [training], those of add_metric_target_keys() within [method].
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "io/rows/class_values.hpp"
#include "kernels/errors.hpp"
#include "src/config/key_table.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

bool of_one(MetricKind kind) {
  switch (kind) {
    case MetricKind::iou:
    case MetricKind::dice:
    case MetricKind::r2:
    case MetricKind::precision:
    case MetricKind::recall:
    case MetricKind::f1:
    case MetricKind::auc:
    case MetricKind::rmse:
    case MetricKind::mae:
    case MetricKind::relative_rmse:
    case MetricKind::relative_mae: return true;
    default: return false;
  }
}

bool of_numbers(MetricKind kind) {
  return kind == MetricKind::r2 || kind == MetricKind::rmse || kind == MetricKind::mae ||
         kind == MetricKind::relative_rmse || kind == MetricKind::relative_mae;
}

}  // namespace

std::string to_string(const Metric& metric) {
  const std::string& word = metric_kind_words().at(static_cast<std::size_t>(metric.kind));
  return metric.of < 0 ? word : fmt::format("{}:{}", word, metric.of);
}

std::optional<Metric> metric_from(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto& words = metric_kind_words();
  const auto found = std::ranges::find(words, text.substr(0, colon));
  if (found == words.end()) return {};
  Metric metric{static_cast<MetricKind>(found - words.begin()), -1};
  if (colon == text.size()) return metric;
  const char *const first = text.data() + colon + 1, *const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, metric.of);
  if (error != std::errc() || end != last || metric.of < 0 || !of_one(metric.kind)) return {};
  return metric;
}

std::string metric_choices(std::optional<Task> task) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < metric_kind_words().size(); ++i)
    if (!task || fits(static_cast<MetricKind>(i), *task)) words.push_back(metric_kind_words()[i]);
  const std::string last = words.back();
  words.pop_back();
  return fmt::format("{} or {}", fmt::join(words, ", "), last);
}

bool fits(MetricKind kind, Task task) { return of_numbers(kind) == (task == Task::regression); }

bool falls(MetricKind kind) { return kind == MetricKind::log_loss || (of_numbers(kind) && kind != MetricKind::r2); }

bool up_to_one(MetricKind kind) { return !falls(kind); }

namespace {

std::string task_text(Task task) {
  switch (task) {
    case Task::regression: return "numbers";
    case Task::binary: return "yes or no per output";
    case Task::classes: return "classes";
  }
  return "";
}

// The first key of a role or stage whose phase ends by a metric; empty: there is none.
std::string metric_stop(const MethodConfig& method) {
  if (method.coarse.metric) return "method.stop.coarse.metric";
  if (method.dense.metric) return "method.stop.dense.metric";
  if (method.finetune.metric) return "method.stop.finetune.metric";
  const auto sets = [](const StageOverride& stage) { return stage.coarse.metric || stage.dense.metric; };
  return std::ranges::any_of(method.stages, sets) ? "method.stages" : "";
}

// The largest metric that ends a phase.
double most_stop(const MethodConfig& method) {
  double most =
      std::max({method.coarse.metric.value_or(0), method.dense.metric.value_or(0), method.finetune.metric.value_or(0)});
  for (const StageOverride& stage : method.stages)
    most = std::max({most, stage.coarse.metric.value_or(0), stage.dense.metric.value_or(0)});
  return most;
}

// Which parts of a split are to have alike shares of every class, where samples have one each.
void set_strata(Config& config, Task task) {
  DataConfig& data = config.data;
  if (task != Task::classes || data.train.choice.part == Subset::all || data.train.choice.by_roles()) return;
  const SplitSettings& split = data.split;
  if (!split.stratify.value_or(split.by != SplitBy::rows) || !data.train.more_labels.empty()) return;
  for (DatasetSpec* part : {&data.train, &data.validation, &data.test})
    if (!part->samples.empty()) part->choice.strata = data.train.labels;
}

// Refuses keys that do not go with the loss, at the location where they are given.
struct TaskKeys : KeyOrigin {
  Task task;

  void needs(const std::string& key, bool set, bool read, const std::string& wants) const {
    require(!set || read, key, key + " is set, and training.loss is of " + task_text(task) + "; it goes with " + wants);
  }
};

void check_class_values(const TrainingConfig& training, const TaskKeys& keys) {
  const std::vector<std::string>& values = training.class_values;
  const std::string key = "training.class_values";
  if (values.empty()) return;
  keys.require(values.size() > 1, key, key + " names one class; name two or more");
  keys.require(!training.classes || std::ssize(values) == *training.classes, key,
               fmt::format("{} names {} classes, and training.classes = {}; remove that", key, values.size(),
                           training.classes.value_or(0)));
  const auto words = std::ranges::count_if(values, [](const std::string& value) { return !class_number(value); });
  keys.require(words == 0 || words == std::ssize(values), key,
               key + " mixes words and numbers; the labels are one or the other");
  for (const std::string& value : values)
    keys.require(std::abs(class_number(value).value_or(0)) < kMostClassValue, key,
                 fmt::format("{} has {}, and takes numbers below 2^53 (9e15); store smaller ones", key, value));
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const bool same = words == 0 ? class_number(values[i]) == class_number(values[j]) : values[i] == values[j];
      keys.require(!same, key, fmt::format("{} has {} twice", key, values[i]));
    }
  if (!training.ignore) return;
  keys.require(std::ranges::none_of(values, [&](const std::string& v) { return class_number(v) == *training.ignore; }),
               key,
               fmt::format("{} has {}, which training.ignore takes for no label; keep one", key, *training.ignore));
}

std::string expected_metric() {
  return metric_choices() +
         "; dice:2 and the like are of one class or output, counted from 0, or by its name: dice:tumour";
}

// Whether a value is for one class or output: "dice:2".
bool of_one(const Value& value) { return value.kind == Value::Kind::text && value.text.find(':') != std::string::npos; }

// `name` becomes that of the class or output that it is of, if it has one. What looks like a number is none.
Metric read_metric(const Value& value, const std::string& path, std::string& name,
                   const std::vector<std::string>& others = {}) {
  std::vector<std::string> words = others;
  words.insert(words.end(), metric_kind_words().begin(), metric_kind_words().end());
  name.clear();
  const auto metric = value.kind == Value::Kind::text ? metric_from(value.text) : std::nullopt;
  if (metric) return *metric;
  if (of_one(value)) {
    const std::size_t colon = value.text.find(':');
    const auto of_first = metric_from(value.text.substr(0, colon) + ":0");
    name = value.text.substr(colon + 1);
    if (of_first && name.find_first_not_of("0123456789.+-") != std::string::npos) return {of_first->kind, -1};
    refuse(value, path,
           "a metric of one class or output, counted from 0 or by its name, as dice:1, recall:deep, auc:0 or rmse:1");
  }
  read_word(value, path, one_of(words));
  return {};
}

Key<TrainingConfig> metric_key() {
  return {"metric", "one of " + expected_metric(),
          "measured beside the validation loss; the accuracy of classes, dice where they have positions unless set",
          [](TrainingConfig& training, const Value& value, const std::string& path) {
            training.metric = read_metric(value, path, training.metric_class);
          },
          [](const TrainingConfig& training) {
            const std::string& name = training.metric_class;
            return training.metric ? quoted(to_string(*training.metric) + (name.empty() ? "" : ":" + name)) : "";
          }};
}

Key<TrainingConfig> weights_key() {
  const std::string expected = mrmf::expected<std::vector<float>>(at_least(0)) + ", or \"balanced\"";
  return {
      "class_weights", expected,
      "weight of each class, or of each output of yes or no, in the loss; \"balanced\": of classes, labels / (classes "
      "* labels of the class), of the training data; 1 unless set",
      [=](TrainingConfig& training, const Value& value, const std::string& path) {
        training.balanced_weights = value.kind == Value::Kind::text && value.text == "balanced";
        training.loss.class_weights.clear();
        if (training.balanced_weights) return;
        if (value.kind == Value::Kind::text) refuse(value, path, expected);
        read(value, path, at_least(0), training.loss.class_weights);
      },
      [](const TrainingConfig& training) {
        if (!training.loss.class_weights.empty()) return write(training.loss.class_weights, at_least(0));
        return training.balanced_weights ? quoted("balanced") : std::string();
      }};
}

Key<TrainingConfig> monitor_key() {
  return {"monitor", "loss, metric, or a metric that training.metric takes",
          "what tells the best epoch and when to stop early: the validation loss, or training.metric, which a metric "
          "named here becomes",
          [](TrainingConfig& training, const Value& value, const std::string& path) {
            training.monitored.reset();
            if (value.kind == Value::Kind::text && (value.text == "loss" || value.text == "metric")) {
              training.monitor = value.text == "loss" ? Monitor::loss : Monitor::metric;
              return;
            }
            std::string name;
            training.monitored = read_metric(value, path, name, {"loss", "metric"});
            if (!name.empty()) training.metric_class = name;
            training.monitor = Monitor::metric;
          },
          [](const TrainingConfig& training) { return quoted(training.monitor == Monitor::loss ? "loss" : "metric"); }};
}

}  // namespace

void add_loss_key(KeyList<TrainingConfig>& keys) {
  keys.add({"loss", expected_loss(),
            "loss function, and with it what labels are: numbers (mse, mae, huber), the number of one class of "
            "several (cross_entropy), or yes or no per output (binary_cross_entropy); dice goes with the latter two",
            [](TrainingConfig& training, const Value& value, const std::string& path) {
              read_loss(training.loss, value, path);
            },
            [](const TrainingConfig& training) { return write_loss(training.loss); }});
}

void add_class_values_key(KeyList<TrainingConfig>& keys) {
  keys.add(
      {"class_values", "a list of numbers or texts",
       "labels that stand for class 0, 1, ... in the files, such as [1, 2, 3] or [\"cat\", \"dog\"]; one-hot labels, "
       "rows of a single 1 and zeros, are recognised without it; the numbers of the classes unless set",
       [](TrainingConfig& training, const Value& value, const std::string& path) {
         training.class_values = read_values(value, path, "a list of numbers or texts");
       },
       [](const TrainingConfig& training) { return write_values(training.class_values); }});
}

void add_class_weights_key(KeyList<TrainingConfig>& keys) { keys.add(weights_key()); }

void add_metric_keys(KeyList<TrainingConfig>& keys) {
  keys.add(metric_key());
  keys.add(monitor_key());
}

void add_metric_target_keys(KeyList<MethodConfig>& keys) {
  for (std::size_t i = 0; i < metric_kind_words().size(); ++i) {
    const Metric metric{static_cast<MetricKind>(i), -1};
    const Rule rule = falls(metric.kind) ? above(0) : above_to(0, 1);
    keys.add({"target.validation_" + to_string(metric), expected<double>(rule),
              std::string("stop the last phase of the plan when this metric of the validation data is as ") +
                  (falls(metric.kind) ? "low" : "high"),
              [=](MethodConfig& method, const Value& value, const std::string& path) {
                if (method.metric_target)
                  throw ConfigError(value.where + ": " + path + " is a second metric to be reached, beside " +
                                    to_string(method.metric_target->metric) + "; keep one");
                method.metric_target = {metric, read_real(value, path, rule)};
              },
              [=](const MethodConfig& method) {
                const bool set = method.metric_target && method.metric_target->metric == metric;
                return set ? fmt::format("{}", method.metric_target->least) : "";
              }});
  }
}

namespace {

void check_class_keys(const Config& config, const TaskKeys& keys) {
  const TrainingConfig& training = config.training;
  const std::vector<float>& weights = training.loss.class_weights;
  keys.needs("training.classes", training.classes.has_value(), keys.task == Task::classes, "cross_entropy or dice");
  keys.needs("training.class_values", !training.class_values.empty(), keys.task == Task::classes,
             "cross_entropy or dice");
  check_class_values(training, keys);
  keys.needs("training.class_weights", !weights.empty(), keys.task != Task::regression, "cross-entropies and dice");
  keys.require(!training.balanced_weights || keys.task == Task::classes, "training.class_weights",
               "training.class_weights = \"balanced\" goes with cross_entropy or dice, and training.loss is of " +
                   task_text(keys.task) + "; give numbers, or use the loss binary_focal");
  keys.require(config.data.sampling == Sampling::all || keys.task == Task::classes, "data.sampling",
               "data.sampling = \"balanced\" draws classes equally often, and training.loss is of " +
                   task_text(keys.task) + "; remove it");
  keys.require(
      config.data.sampling == Sampling::all || config.data.shuffle, "data.shuffle",
      "data.shuffle = false with data.sampling = \"balanced\" would draw the first samples of large classes alone, in "
      "every epoch; remove either");
  keys.needs("training.ignore", training.ignore.has_value(), keys.task != Task::regression, "cross-entropies and dice");
  keys.require(weights.empty() || std::accumulate(weights.begin(), weights.end(), 0.0F) > 0, "training.class_weights",
               "training.class_weights are all 0: nothing would be learnt");
}

// training.metric, training.monitor, and the targets and stops that ask for a metric.
void complete_metric(Config& config, const TaskKeys& keys) {
  TrainingConfig& training = config.training;
  const std::string measured = training.monitored ? "training.monitor" : "training.metric";
  if (training.monitored) {
    keys.require(!training.metric || training.metric == training.monitored, "training.monitor",
                 fmt::format("training.monitor is {}, and training.metric {}; a run measures one: remove either",
                             to_string(*training.monitored), to_string(training.metric.value_or(Metric{}))));
    training.metric = std::exchange(training.monitored, std::nullopt);
  }
  if (const auto& target = config.method.metric_target) {
    const std::string key = "method.target.validation_" + to_string(target->metric);
    keys.require(!config.method.target, key, key + " and method.target.validation_loss are both given; keep one");
    keys.require(!training.metric || *training.metric == target->metric, key,
                 key + " is to be reached, and training.metric is another one; remove that");
    keys.require(fits(target->metric.kind, keys.task), key,
                 key + " does not go with training.loss, which is of " + task_text(keys.task));
    training.metric = target->metric;
  }
  const std::string stop = metric_stop(config.method);
  keys.require(stop.empty() || training.metric, stop,
               stop + " ends a phase by training.metric, which is not set; set it to " + metric_choices(keys.task));
  keys.require(stop.empty() || falls(training.metric->kind) || most_stop(config.method) <= 1, stop,
               fmt::format("{} is {:g}, and training.metric = \"{}\" is at most 1", stop, most_stop(config.method),
                           to_string(training.metric.value_or(Metric{}))));
  keys.require(!training.metric || fits(training.metric->kind, keys.task), measured,
               measured + " does not go with training.loss, which is of " + task_text(keys.task) + "; set it to " +
                   metric_choices(keys.task));
}

}  // namespace

void complete_task(Config& config, const KeyLocations& locations, const std::string& origin) {
  TrainingConfig& training = config.training;
  const Task task = training.loss.task();
  const TaskKeys keys{{locations, origin}, task};
  check_class_keys(config, keys);
  complete_metric(config, keys);
  const Normalisation& units = config.data.normalise_labels;
  keys.require((!units.log1p && !units.mean_std) || task == Task::regression, "data.normalise.labels",
               "data.normalise.labels changes numbers, and training.loss is of " + task_text(task) + "; remove it");
  LabelForm form;
  form.kind = task == Task::classes  ? LabelKind::classes
              : task == Task::binary ? LabelKind::probabilities
                                     : LabelKind::numbers;
  form.classes = training.classes.value_or(0);
  form.ignore = training.ignore;
  form.coarse = config.data.coarse_labels;
  form.values = training.class_values;
  const Names& names = config.data.names;
  form.named = names.stored.empty() && !(task == Task::classes ? names.classes : names.labels).empty();
  config.data.train.form = config.data.validation.form = config.data.test.form = form;
  set_strata(config, task);
}

// A loss in a configuration: a word, or a list of them as a sum. Paths are within an entry of that list; defaults: Term
// below.

namespace {

/// An entry of the list.
struct Term {
  LossKind kind = LossKind::mse;
  float weight = 1, delta = 1, smooth = 1, gamma = 0;
};

constexpr float kFocalGamma = 2;  // as the paper of the focal loss has it

// In the order of LossKind; the last two are cross-entropies with another default of gamma.
const std::vector<std::string>& loss_words() {
  static const std::vector<std::string> words{"mse",  "mae",   "huber",       "cross_entropy", "binary_cross_entropy",
                                              "dice", "focal", "binary_focal"};
  return words;
}

void set_kind(Term& term, std::size_t word) {
  const bool focal = word >= kLossKinds;
  term.kind = !focal               ? static_cast<LossKind>(word)
              : word == kLossKinds ? LossKind::cross_entropy
                                   : LossKind::binary_cross_entropy;
  if (focal && term.gamma == 0) term.gamma = kFocalGamma;
}

std::string word(LossKind kind) { return loss_words()[static_cast<std::size_t>(kind)]; }

}  // namespace

std::string expected_loss() {
  return expected_word(one_of(loss_words())) +
         ", or a list of them as a sum, such as [{ kind = \"cross_entropy\" }, { kind = \"dice\", weight = 0.5 }]";
}

namespace {

std::vector<Key<Term>> term_keys() {
  return {{"kind", expected_word(one_of(loss_words())), "loss",
           [](Term& term, const Value& value, const std::string& path) {
             set_kind(term, read_word(value, path, one_of(loss_words())));
           },
           [](const Term& term) { return quoted(word(term.kind)); }},
          make_key<Term>("weight", MRMF_FIELD(weight), above(0), "of this loss in the sum"),
          make_key<Term>("delta", MRMF_FIELD(delta), above(0), "huber: errors above it count linearly"),
          make_key<Term>("smooth", MRMF_FIELD(smooth), above(0), "dice: added to both sides of the fraction"),
          make_key<Term>("gamma", MRMF_FIELD(gamma), at_least(0),
                         "cross-entropies: the focal loss, in which what is sure counts less")};
}

Term read_term(const Value& value, const std::string& path) {
  Term term;
  if (value.kind == Value::Kind::text) {
    set_kind(term, read_word(value, path, one_of(loss_words())));
    return term;
  }
  if (value.kind != Value::Kind::table) refuse(value, path, expected_loss());
  if (value.find("kind") == nullptr)
    throw ConfigError(value.where + ": " + path + " has no kind; it must be " + expected_word(one_of(loss_words())));
  KeyLocations locations;
  read_table(value, path + ".", "", term_keys(), term, locations);
  for (const auto& [key, kind] : {std::pair("delta", LossKind::huber), std::pair("smooth", LossKind::dice)})
    if (value.find(key) != nullptr && term.kind != kind)
      throw ConfigError(value.where + ": " + path + "." + key + " belongs to " + word(kind) + ", and this is " +
                        word(term.kind) + "; remove it");
  const bool entropy = term.kind == LossKind::cross_entropy || term.kind == LossKind::binary_cross_entropy;
  if (value.find("gamma") != nullptr && !entropy)
    throw ConfigError(value.find("gamma")->where + ": " + path + ".gamma belongs to a cross-entropy, and this is " +
                      word(term.kind) + "; remove it");
  return term;
}

bool of_numbers(LossKind kind) { return kind == LossKind::mse || kind == LossKind::mae || kind == LossKind::huber; }

// Dice goes with either cross-entropy.
bool of_one_task(LossKind a, LossKind b) {
  if (of_numbers(a) || of_numbers(b)) return of_numbers(a) && of_numbers(b);
  return a == LossKind::dice || b == LossKind::dice;
}

}  // namespace

void read_loss(LossSettings& loss, const Value& value, const std::string& path) {
  const std::vector<Value> entries = read_list(value);
  if (entries.empty()) refuse(value, path, expected_loss());
  std::vector<LossKind> kinds;
  loss.weights = {};
  loss.gamma = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string at = value.kind == Value::Kind::list ? fmt::format("{}[{}]", path, i) : path;
    const Term term = read_term(entries[i], at);
    for (const LossKind earlier : kinds) {
      if (earlier == term.kind) throw ConfigError(entries[i].where + ": " + path + " has " + word(earlier) + " twice");
      if (!of_one_task(earlier, term.kind))
        throw ConfigError(fmt::format(
            "{}: {} adds {} to {}, which are of different tasks: mse, mae and huber are of numbers, cross_entropy of "
            "one class of several, binary_cross_entropy of yes or no per output, and dice of either of these two",
            entries[i].where, path, word(term.kind), word(earlier)));
    }
    kinds.push_back(term.kind);
    loss.weights[static_cast<std::size_t>(term.kind)] = term.weight;
    if (term.kind == LossKind::huber) loss.delta = term.delta;
    if (term.kind == LossKind::dice) loss.smooth = term.smooth;
    if (term.gamma > 0) loss.gamma = term.gamma;
  }
}

std::string write_loss(const LossSettings& loss) {
  std::vector<std::string> terms;
  for (std::size_t i = 0; i < kLossKinds; ++i) {
    if (!(loss.weights[i] > 0)) continue;
    const auto kind = static_cast<LossKind>(i);
    std::string term = "kind = " + quoted(loss_words()[i]);
    if (loss.weights[i] != 1) term += fmt::format(", weight = {}", loss.weights[i]);
    if (kind == LossKind::huber && loss.delta != 1) term += fmt::format(", delta = {}", loss.delta);
    if (kind == LossKind::dice && loss.smooth != 1) term += fmt::format(", smooth = {}", loss.smooth);
    if (kind != LossKind::dice && loss.gamma > 0) term += fmt::format(", gamma = {}", loss.gamma);
    terms.push_back(term);
  }
  const std::string plain = terms.size() == 1 ? "kind = " : "";
  if (!plain.empty() && terms.front().find(',') == std::string::npos) return terms.front().substr(plain.size());
  return fmt::format("[{{ {} }}]", fmt::join(terms, " }, { "));
}

}  // namespace mrmf
