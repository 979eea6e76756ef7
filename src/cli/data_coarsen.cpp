// `mrmf data` and `mrmf coarsen`, and what the headers of data files tell other commands (data_sample() and what
// follows).
#include "src/cli/commands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "generated/version.hpp"
#include "io/coarsen/coarsen.hpp"
#include "io/files/file_names.hpp"
#include "io/files/output_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/split.hpp"
#include "kernels/errors.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "src/config/model_config.hpp"
#include "src/data/classes.hpp"
#include "src/data/data.hpp"
#include "src/inspection/survey.hpp"
#include "src/plan/plan.hpp"
#include "src/system/backend_choice.hpp"

namespace mrmf {

// `mrmf data`: what the data of a configuration are, and what will be slow or go wrong with them.

namespace {

constexpr std::size_t kMostLines = 32;  // most lines of channels, or of classes

struct DataOptions {
  std::string config;
  std::vector<std::string> overrides;
  bool headers = false, json = false;
};

// Names of classes or channels, or their numbers, from 0 on.
class Names {
 public:
  explicit Names(const std::vector<std::string>& names = {}) : names_(names) {
    for (const std::string& name : names) width_ = std::max(width_, name.size());
    width_ = std::min<std::size_t>(width_, 40);
  }
  std::string operator[](std::size_t c) const { return c < names_.size() ? names_[c] : std::to_string(c); }
  std::size_t width() const { return width_; }

 private:
  std::vector<std::string> names_;
  std::size_t width_ = 7;
};

std::string channels_text(const ChannelFacts& facts, const Names& names) {
  std::string text = fmt::format("    {:>{}} {:>12} {:>12} {:>12} {:>12}\n", "channel", names.width(), "least", "mean",
                                 "deviation", "most");
  for (std::size_t c = 0; c < std::min(facts.mean.size(), kMostLines); ++c)
    text += fmt::format("    {:>{}} {:>12.5g} {:>12.5g} {:>12.5g} {:>12.5g}\n", names[c], names.width(), facts.least[c],
                        facts.mean[c], facts.deviation[c], facts.most[c]);
  if (facts.mean.size() > kMostLines) text += fmt::format("    ... {} channels; --json has all\n", facts.mean.size());
  return text;
}

// What was done to stored numbers, and how many were missing.
std::string packing_text(const NumbersFound& found) {
  const double missing = found.missing.value_or(0);
  std::string text = fmt::format("{}", fmt::join(found.packing, "\n    "));
  if (missing > 0) text += fmt::format("{}{:.0f} numbers missing", text.empty() ? "" : "; ", missing);
  return text.empty() ? "" : "    " + text + "\n";
}

std::string numbers_text(const std::string& what, const NumbersFound& found, const Names& names) {
  const std::string storage = found.storage.empty() ? "" : fmt::format(", {}", fmt::join(found.storage, ", "));
  return fmt::format("  {} '{}': {}{}, each {}\n", what, found.name, fmt::join(found.types, ", "), storage,
                     found.shape) +
         packing_text(found) + (found.facts ? channels_text(*found.facts, names) : "");
}

std::string split_text(const SplitFound& split, const Names& names) {
  std::string text = fmt::format("{}: {} samples in {} file{}, {:.3g} GB\n", split.part, split.shape.samples,
                                 split.spec.files.size(), split.spec.files.size() == 1 ? "" : "s", split.bytes / 1e9);
  if (split.part == "training" && !split.shape.unused.empty()) text += "  " + split.shape.unused + "\n";
  if (!split.not_finite.empty()) {
    text += fmt::format("  {} rows hold NaN or infinity:\n", split.not_finite.size());
    for (const std::string& rows : some_rows(split.spec, split.shape, split.not_finite)) text += "    " + rows + "\n";
  }
  text += numbers_text("samples", split.samples, Names()) + numbers_text("labels", split.labels, names);
  if (!split.class_counts.empty()) text += fmt::format("    {:>{}} {:>12}\n", "class", names.width(), "labels");
  for (std::size_t c = 0; c < std::min(split.class_counts.size(), kMostLines); ++c)
    text += fmt::format("    {:>{}} {:>12}\n", names[c], names.width(), split.class_counts[c]);
  return text + "\n";
}

nlohmann::json to_json(const NumbersFound& found) {
  nlohmann::json json{{"name", found.name},
                      {"types", found.types},
                      {"packing", found.packing},
                      {"storage", found.storage},
                      {"shape", found.shape}};
  if (found.missing) json["missing"] = *found.missing;
  if (!found.facts) return json;
  json["channels"] = {{"least", found.facts->least},
                      {"mean", found.facts->mean},
                      {"deviation", found.facts->deviation},
                      {"most", found.facts->most}};
  return json;
}

std::string to_json(const DataFound& found, const std::vector<std::string>& names) {
  nlohmann::json json{{"advice", found.advice}, {"names", names}};
  for (const SplitFound& split : found.splits)
    json[split.part] = {
        {"samples", split.shape.samples},   {"files", split.spec.files},      {"bytes", split.bytes},
        {"unused", split.shape.unused},     {"not_finite", split.not_finite}, {"class_counts", split.class_counts},
        {"sample", to_json(split.samples)}, {"label", to_json(split.labels)}};
  for (const SplitFound& split : found.splits)
    if (split.rows)
      json[split.part]["rows"] = {{"looked_at", split.rows->looked()},
                                  {"constant", split.rows->constant()},
                                  {"zeros", split.rows->zeros()},
                                  {"missing", split.rows->missing()},
                                  {"repeated", split.rows->repeated()}};
  return json.dump() + "\n";
}

// Names of classes, or of the labels' channels, as a run has them; none where they have none, or do not fit: an advice
// then.
std::vector<std::string> find_names(Config config, DataFound& found) {
  const SplitFound& train = found.splits.front();
  const bool classes = train.spec.form.kind == LabelKind::classes;
  const Index outputs = classes ? train.spec.form.classes : train.shape.label.channels;
  if (outputs <= 0) return {};
  config.data.train = train.spec;
  try {
    std::ranges::copy(resolve_names(config, outputs, train.shape), std::back_inserter(found.advice));
    return names_of(config);
  } catch (const ConfigError& error) {  // on every rank alike
    found.advice.emplace_back(error.what());
    return {};
  }
}

// Why training would refuse these data, or nothing.
std::string misfit(Config config, const DatasetShape& train) {
  try {
    require_channels(config.data, train.sample);
  } catch (const ConfigError& error) {
    return error.what();
  }
  try {
    const bool chosen = config.method.name == MethodName::automatic;  // the plan, whose resolutions fit
    resolve_labels(config, train, chosen ? std::vector{Extent{1, 1, 1}} : make_plan(config).resolutions());
  } catch (const ConfigError& error) {
    return std::string("the model does not fit the data: ") + error.what();
  }
  return {};
}

void print_data(const DataOptions& options, Comm& world) {
  const Config config = read_config(options.config, options.overrides);
  DataFound found = survey(config, options.headers, world);
  for (const SplitFound& split : found.splits) require_same_names(found.splits.front().shape, split.shape, split.part);
  const std::vector<std::string> names = find_names(config, found);
  if (!world.root()) return;
  if (const std::string why = misfit(config, found.splits.front().shape); !why.empty()) found.advice.push_back(why);
  if (options.json) {
    std::cout << to_json(found, names);
    return;
  }
  for (const SplitFound& split : found.splits) std::cout << split_text(split, Names(names));
  for (const std::string& line : found.advice) std::cout << "advice: " << line << "\n";
  if (found.advice.empty())
    std::cout << (options.headers ? "the headers give no cause for advice\n"
                                  : "nothing stands in the way of training\n");
}

}  // namespace

void add_data(Subcommands& commands) {
  CLI::App* data = commands.app.add_subcommand(
      "data",
      "print what the data files hold (shapes, types, ranges, gaps, classes) and what will be slow or go wrong, with "
      "what to do about it");
  auto options = std::make_shared<DataOptions>();
  add_config(*data, options->config, options->overrides);
  data->add_flag("--headers", options->headers, "read no samples or labels: no ranges, no search for NaN");
  add_json(*data, options->json);
  add_example(*data, "mrmf data mine.toml");
  commands.run(*data, [=, &world = commands.world] { print_data(*options, world); });
}

namespace {

std::string absent_text(const std::string& file) {
  std::error_code ignored;
  const std::string from = std::filesystem::path(file).is_relative()
                               ? " (looked for in " + std::filesystem::current_path(ignored).string() + ")"
                               : "";
  std::string advice = advice_on_name(file);
  if (advice.empty()) advice = advice_on_access(file);
  return (is_pattern(file) ? "no file matches " + file : file + " is not there") +
         (advice.empty() ? from : ": " + advice);
}

}  // namespace

std::string absent(const std::vector<std::string>& files) {
  std::error_code unreadable;  // counts as existing, so that opening the file reports why
  for (const std::string& file : files)
    if (std::filesystem::status(file, unreadable).type() == std::filesystem::file_type::not_found) return file;
  return {};
}

std::vector<std::string> packing_lines(const DatasetSpec& spec, Comm& world) {
  std::vector<std::string> lines, names = spec.sample_names();
  std::ranges::copy(spec.label_names(), std::back_inserter(names));
  const std::vector<PackingCount> counts = count_packings(spec, names, world);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool all = counts[i].texts.size() == 1 && counts[i].texts.begin()->second == counts[i].all;
    for (const std::string& text : packing_texts(counts[i]))
      lines.push_back("'" + names[i] + "' " + (all ? "is " : "in ") + text);
  }
  return lines;
}

DatasetShape headers_of(DatasetSpec spec, Comm& world) {
  spec.not_finite = NotFiniteRule::refuse;
  return inspect_dataset(spec, world);
}

DataSample data_sample(const Config& config, const std::string& given, Comm& world) {
  if (!given.empty()) return {parse_sample(given), "as given"};
  const std::string missing = absent(config.data.train.files);
  if (missing.empty()) {
    DatasetShape train = headers_of(config.data.train, world);
    const Shape sample = train.sample;
    return {sample, "from the data", std::move(train)};
  }
  if (const std::string usual = preset_sample(config.model.preset); !usual.empty())
    return {parse_sample(usual), "the preset's own: " + absent_text(missing)};
  throw DataError(absent_text(missing) +
                  "; the sample's shape is taken from it: correct data.files, or give --sample, e.g. --sample 1600x3");
}

std::optional<RunSize> run_size(const Config& config, const DataSample& sample, Comm& world) {
  if (!sample.train) return {};
  RunSize size{static_cast<double>(sample.train->samples), 0, config.run.ranks > 0 ? config.run.ranks : world.size()};
  if (absent(config.data.validation.files).empty())
    size.validation = static_cast<double>(headers_of(config.data.validation, world).samples);
  return size;
}

AutoSchedule schedule_for(const Config& config, const DataSample& sample, const std::optional<RunSize>& size,
                          Comm& world) {
  return sample.train && size ? choose_schedule(config, *sample.train, *size, world)
                              : choose_schedule(config, sample.shape, size);
}

Config with_schedule(const Config& config, const std::string& given, Comm& world) {
  if (config.method.name != MethodName::automatic) return config;
  const DataSample sample = data_sample(config, given, world);
  return schedule_for(config, sample, run_size(config, sample, world), world).config;
}

void add_sample(CLI::App& app, std::string& given) {
  app.add_option("--sample", given, "shape of a sample, e.g. 1600x3; default: the data's, else the preset's");
}

// `mrmf coarsen`: makes coarse copies of files, under their own names.

namespace {

namespace fs = std::filesystem;

/// "2,2,2", for as many axes as it has numbers.
struct Factor {
  Extent extent{1, 1, 1};
  int axes = 0;
};

Factor factor_of(const std::string& text) {
  std::vector<Index> numbers;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const bool number = !word.empty() && word.size() < 7 && word.find_first_not_of("0123456789") == std::string::npos;
    numbers.push_back(number ? std::stoll(word) : 0);
  }
  Factor factor;
  factor.axes = static_cast<int>(numbers.size());
  const bool good = !numbers.empty() && numbers.size() <= factor.extent.size() &&
                    std::ranges::all_of(numbers, [](Index n) { return n >= 1; });
  if (!good)
    throw ConfigError("--factor " + text + ": give one to three integers of at least 1, one per axis, such as 2,2,2");
  std::ranges::copy(numbers, factor.extent.end() - factor.axes);
  if (factor.extent == Extent{1, 1, 1})
    throw ConfigError("--factor " + text + ": averages nothing; give a number above 1");
  return factor;
}

struct CoarsenOptions {
  std::vector<std::string> files;
  std::string factor;                ///< "2,2,2": per axis
  std::string axes;                  ///< "n c y x": of the data sets to average
  std::string output;                ///< folder
  std::vector<std::string> samples;  ///< data sets to average; empty: by their number of axes
  RowsBy rows = RowsBy::axis;
  ElementType type = ElementType::float32;
  MissingRule missing = MissingRule::refuse;
  PackingRule packing = PackingRule::apply;
  int threads = 0;
  Replace replace = Replace::nothing;
};

// The files that patterns stand for, as the root finds them. Collective.
std::vector<std::string> files_of(const CoarsenOptions& options, Comm& world) {
  std::string names;
  collective_try_on_root(world, [&] {
    for (const std::string& file : expand_patterns(options.files)) {
      if (is_pattern(file)) throw DataError(no_match_text(file));
      names += file + '\n';
    }
  });
  world.broadcast(names, 0);
  std::vector<std::string> files;
  std::istringstream lines(names);
  for (std::string line; std::getline(lines, line);) files.push_back(line);
  return files;
}

// Refuses two sources of the same name, and a source that would be overwritten.
void check_names(const CoarsenOptions& options) {
  std::set<fs::path> names;
  for (const std::string& file : options.files) {
    const fs::path target = fs::path(options.output) / fs::path(file).filename();
    require_output(target.string(), options.replace, all_inputs(target.string(), options.files));
    if (!names.insert(target).second)
      throw ConfigError("two files are called " + target.filename().string() + "; copy them into different folders");
  }
}

void write_copies(CoarsenOptions options, Comm& world) {
  const Timer timer;
  options.files = files_of(options, world);
  CoarseCopy copy;
  const Factor factor = factor_of(options.factor);
  copy.factor = factor.extent;
  copy.axes = factor.axes;
  copy.axis_names = options.axes;
  copy.replace = options.replace;
  copy.samples = options.samples;
  copy.rows = options.rows;
  copy.type = options.type;
  copy.missing = options.missing;
  copy.packing = options.packing;
  copy.program = std::string("mrmf ") + kVersion;
  omp_set_num_threads(choose_threads(options.threads, world));
  std::optional<OutputFolder> folder;
  collective_try(world, [&] {
    if (!world.root()) return;
    if (options.output.empty()) throw ConfigError("--output is empty; name a folder");
    check_names(options);
    require_copies(copy, options.files);
    folder.emplace(options.output);
  });
  std::vector<std::unique_ptr<FinishedFile>> copies;  // in their places when all are whole
  std::string notes;
  Index samples = 0, bytes = 0;
  for (const std::string& file : options.files) {
    copy.source = file;
    copy.target = (fs::path(options.output) / fs::path(file).filename()).string();
    CoarseFile made = coarse_copy(copy, world);
    if (world.root()) copies.push_back(std::move(made.file));
    for (const std::string& note : made.notes) notes += copy.target + ": " + note + "\n";
    samples += made.count;
    bytes += made.bytes;
  }
  collective_try_on_root(world, [&] { put_in_place(copies); });
  if (!world.root()) return;
  std::cout << notes;
  std::cout << fmt::format("{}: {} samples in {} file{}, {:.3g} GB, in {:.1f} s\n", options.output, samples,
                           options.files.size(), options.files.size() == 1 ? "" : "s", static_cast<double>(bytes) / 1e9,
                           timer.seconds());
}

}  // namespace

void add_coarsen(Subcommands& commands) {
  CLI::App* coarsen = commands.app.add_subcommand("coarsen", "write averaged-down copies of data files");
  auto options = std::make_shared<CoarsenOptions>();
  coarsen->add_option("files", options->files, "HDF5 files")->required();
  coarsen->add_option("--factor", options->factor, "how many neighbours become one, per axis of positions: 2,2,2")
      ->required();
  coarsen->add_option("--output,-o", options->output, "folder for the copies, which keep their names")->required();
  coarsen->add_option("--axes", options->axes,
                      "axes of the data sets to average, in the order of the files: n for samples, c for channels, any "
                      "other name for a position, such as \"n c y x\"; without c there is one channel; unless given, "
                      "samples come first and channels last");
  coarsen
      ->add_option("--samples", options->samples,
                   "data sets to average; unless given, all that have the axes of --axes, or samples with as many axes "
                   "as --factor has numbers; may be given more than once")
      ->take_all()
      ->expected(1);
  const Choices<RowsBy> forms{{"axis", RowsBy::axis}, {"files", RowsBy::files}, {"groups", RowsBy::groups}};
  add_choice(
      *coarsen, "--rows", options->rows, forms,
      "what one sample is: a step along the first axis of its data set, or, as data.rows says, all of a data set "
      "of a file or of a group; then --samples names data sets within the groups");
  const Choices<ElementType> types{{"float32", ElementType::float32}, {"uint16", ElementType::uint16}};
  add_choice(*coarsen, "--type", options->type, types, "type of the copy's samples; uint16: means rounded to integers");
  add_choice(*coarsen, "--missing", options->missing, choices<MissingRule>(),
             "rows that were never written: refuse them, or take the fill value");
  add_choice(*coarsen, "--packing", options->packing, choices<PackingRule>(),
             "scales, offsets and missing numbers of netCDF and CF: apply them to the data sets to average, or average "
             "the stored numbers");
  coarsen->add_option("--threads", options->threads, "threads per rank; 0: all cores that the rank may use")
      ->check(not_negative())
      ->capture_default_str();
  add_overwrite(*coarsen, options->replace, "replace copies that are there");
  add_example(*coarsen, "mrmf coarsen mydata.h5 --factor 2,2 -o coarse");
  commands.run(*coarsen, [=, &world = commands.world] { write_copies(*options, world); });
}

}  // namespace mrmf
