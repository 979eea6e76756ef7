#include "src/inference/predict.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include <fmt/format.h>

#include "io/hdf5/output.hpp"
#include "io/rows/sample_reader.hpp"
#include "io/rows/split.hpp"
#include "kernels/errors.hpp"
#include "layers/model.hpp"
#include "src/config/key_table.hpp"
#include "src/data/classes.hpp"
#include "src/inference/appended_data.hpp"
#include "src/inference/evaluate.hpp"
#include "src/training/metrics.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kMostAttribute = 60000;  // bytes
const std::vector<std::string> kOwnNames{"prediction", "probability", "deviation", "class", "file", "row", "files"};

// The shape of a data set with so many numbers for each position of every sample's output; 0: without an axis for them.
std::vector<Index> data_shape(Index samples, const Shape& output, Index channels) {
  std::vector<Index> shape{samples};
  shape.insert(shape.end(), output.spatial.end() - output.axes, output.spatial.end());
  if (channels > 0) shape.push_back(channels);
  return shape;
}

// Which row of which file these samples are.
void write_sources(Hdf5Output& out, const StoredRows& stored, Range samples) {
  std::vector<std::uint32_t> files, rows;
  stored.for_each_run(samples, [&](const RowRun& run) {
    for (Index row = run.rows.first; row < run.rows.first + run.rows.count; ++row) {
      files.push_back(static_cast<std::uint32_t>(run.file));
      rows.push_back(static_cast<std::uint32_t>(row));
    }
  });
  out.write_rows("file", samples.first, std::span<const std::uint32_t>(files));
  out.write_rows("row", samples.first, std::span<const std::uint32_t>(rows));
}

/// Mean and standard deviation (n - 1) of values that come one set after the other (Welford).
class Spread {
 public:
  void add(ConstSpan values) {
    if (count_++ == 0) mean_.assign(values.size(), 0), squares_.assign(values.size(), 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double before = values[i] - mean_[i];
      mean_[i] += before / count_;
      squares_[i] += before * (values[i] - mean_[i]);
    }
  }
  int count() const { return count_; }
  std::vector<float> mean() const { return {mean_.begin(), mean_.end()}; }
  std::vector<float> deviation() const {
    std::vector<float> result(squares_.size());
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = static_cast<float>(std::sqrt(squares_[i] / (count_ - 1)));
    return result;
  }
  void clear() { count_ = 0; }

 private:
  int count_ = 0;
  std::vector<double> mean_, squares_;
};

/// Writes the outputs of one model, or mean and deviation of several passes, in the labels' own units. Of classes and
/// of yes or no, means are of probabilities. Where the samples are not simply the rows of one file, "file" and "row"
/// say what they are.
class Predictions {
 public:
  Predictions(const PredictOptions& options, const Trained& t, AppendedData& appended, Hdf5Output& file)
      : t_(t),
        appended_(appended),
        file_(file),
        stored_(t.shape),
        wanted_(static_cast<int>(t.models.size()) * options.passes.of_each()),
        sources_(!t.shape.rows.empty() || t.spec.files.size() > 1) {
    const Index samples = t.shape.samples, channels = t.output().channels;
    std::vector<std::string> of_outputs{"prediction"}, others;
    if (wanted_ > 1) of_outputs.emplace_back("deviation");
    if (t.task() != Task::regression) of_outputs.emplace_back("probability");
    for (const std::string& name : of_outputs)
      file.create_dataset(name, data_shape(samples, t.output(), channels), ElementType::float32);
    const auto create = [&](const std::string& name, const std::vector<Index>& shape, ElementType type) {
      file.create_dataset(name, shape, type);
      others.push_back(name);
    };
    if (t.task() == Task::classes) create("class", data_shape(samples, t.output(), 0), ElementType::uint16);
    if (sources_) {
      for (const char* name : {"file", "row"}) create(name, {samples}, ElementType::uint32);
      file.write_text("files", fmt::format("{}", fmt::join(t.spec.files, "\n")));
    }
    // What a reader of the labels needs to put them beside these: the axes of samples, and of labels with positions.
    if (!t.spec.axes.empty()) file.write_attribute("label_axes", t.spec.axes);
    if (const auto ignore = t.config.training.ignore) file.write_attribute("ignored_label", std::to_string(*ignore));
    const std::string values = write_values(t.config.training.class_values);
    if (!values.empty() && values.size() < kMostAttribute) file.write_attribute("class_values", values);
    if (const std::vector<std::string>& names = names_of(t.config); !names.empty())
      write_names(t.task() == Task::classes ? "class_names" : "label_names", names);
    appended.create(file);
    others.insert(others.end(), appended.names().begin(), appended.names().end());
    describe(of_outputs, others);
  }

  /// Adds a batch of every model's every pass over the same rows, one after the other.
  void add(const BatchResult& batch) {
    std::vector<float> y(batch.outputs.begin(), batch.outputs.end());
    undo(batch.by.labels, 0, y);
    if (wanted_ == 1) return write(batch.first, y, probability(y));
    spread_.add(t_.task() == Task::regression ? y : probability(y));
    if (spread_.count() < wanted_) return;
    const std::vector<float> mean = spread_.mean();
    file_.write_rows("deviation", batch.first, spread_.deviation());
    write(batch.first, mean, mean);
    spread_.clear();
  }

  /// "180 rows; prediction and probability 180x3, class, file, row": the data sets, for people.
  const std::string& made() const { return made_; }

 private:
  // As a list in JSON, unless that is longer than an attribute can be.
  void write_names(const char* attribute, const std::vector<std::string>& names) {
    const std::string list = nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (list.size() < kMostAttribute) file_.write_attribute(attribute, list);
  }
  void describe(const std::vector<std::string>& of_outputs, const std::vector<std::string>& others) {
    const Index samples = t_.shape.samples;
    made_ = fmt::format("{} row{}; {}", samples, samples == 1 ? "" : "s", of_outputs.front());
    for (std::size_t i = 1; i < of_outputs.size(); ++i)
      made_ += (i + 1 < of_outputs.size() ? ", " : " and ") + of_outputs[i];
    made_ += fmt::format(" {}x{}", samples, to_string(t_.output()));
    for (const std::string& name : others) made_ += ", " + name;
  }

  std::vector<float> probability(ConstSpan y) const {
    if (t_.task() == Task::regression) return {};
    return probabilities(t_.task(), t_.output().channels, y);
  }

  void write(Index first, ConstSpan y, ConstSpan probability) {
    const Range samples{first, std::ssize(y) / t_.output().per_sample()};
    file_.write_rows("prediction", first, y);
    if (t_.task() != Task::regression) file_.write_rows("probability", first, probability);
    if (t_.task() == Task::classes) file_.write_rows("class", first, predicted_classes(t_.output().channels, y));
    if (sources_) write_sources(file_, stored_, samples);
    appended_.write(file_, samples);
  }

  const Trained& t_;
  AppendedData& appended_;
  Hdf5Output& file_;
  StoredRows stored_;
  int wanted_;  // passes over a batch
  bool sources_;
  Spread spread_;
  std::string made_;
};

void require_dropout(const PredictOptions& options, const Trained& t) {
  const Passes& passes = options.passes;
  if (passes.dropout == 0) return;
  if (passes.dropout == 1 && t.models.size() == 1)
    throw ConfigError(
        "predict --dropout 1: one pass says nothing of how far passes differ; give 2 or more, such as 30");
  for (const TrainedModel& one : t.models)
    if (!drops(one.model->network()))
      throw ConfigError("predict --dropout: the network of " + one.name +
                        " has no dropout, so all passes would be the same; leave it out, and give runs of other seeds "
                        "instead (predict RUN1 RUN2 ...)");
}

// "; mean and deviation of 3 runs, 20 passes with dropout each"
std::string spread_text(const PredictOptions& options, std::size_t models) {
  const int passes = options.passes.dropout;
  if (models < 2 && passes == 0) return "";
  const std::string of_dropout = fmt::format("{} {} with dropout", passes, passes == 1 ? "pass" : "passes");
  if (models < 2) return "; mean and deviation of " + of_dropout;
  return fmt::format("; mean and deviation of {} models{}", models, passes > 0 ? ", " + of_dropout + " each" : "");
}

}  // namespace

std::string predict(const PredictOptions& options, Comm& world) {
  Trained t = open_trained(options.model, LabelUse::unread, world);
  require_dropout(options, t);
  AppendedData appended(options.model.append, kOwnNames, t.spec, t.shape, world);
  Hdf5Output file(options.model.output, options.model.replace, world);
  Predictions predictions(options, t, appended, file);
  collective_try(world,
                 [&] { for_each_batch(t, options.passes, [&](const BatchResult& batch) { predictions.add(batch); }); });
  file.commit();
  return predictions.made() + spread_text(options, t.models.size());
}

}  // namespace mrmf
