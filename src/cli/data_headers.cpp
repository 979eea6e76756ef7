#include "src/cli/data_headers.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "io/files/file_names.hpp"
#include "io/rows/dataset.hpp"
#include "kernels/errors.hpp"
#include "src/config/model_config.hpp"
#include "src/inspection/survey.hpp"

namespace mrmf {
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

}  // namespace mrmf
