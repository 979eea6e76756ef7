#include "src/cli/training_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "io/file_identity.hpp"
#include "io/stored_rows.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

// The place of each file in a list of others, under whatever name; -1: it is not in it. The root's view on all ranks.
std::vector<Index> places(const std::vector<std::string>& files, const std::vector<std::string>& list, Comm& world) {
  std::map<FileIdentity, Index> known;  // one look at each file: there may be thousands
  for (std::size_t i = 0; i < list.size(); ++i)
    if (const auto identity = file_identity(list[i])) known.emplace(*identity, static_cast<Index>(i));
  std::vector<Index> found;
  for (const std::string& file : files) {
    const auto identity = file_identity(file);
    const auto place = identity ? known.find(*identity) : known.end();
    found.push_back(place != known.end() ? place->second : -1);
  }
  world.broadcast(std::span(found), 0);
  return found;
}

// The rows that the choice of the training data takes; nothing where its files are gone.
std::optional<DatasetShape> rows_of_training(DatasetSpec train, Comm& world) {
  train.labels.clear();
  train.missing = MissingRule::fill;
  train.not_finite = NotFiniteRule::refuse;  // skipping would read all samples
  try {
    return inspect_dataset(train, world);
  } catch (const DataError&) {  // on every rank
    return {};
  } catch (const ConfigError&) {  // the files have other axes now
    return {};
  }
}

Index count_common(const DatasetShape& shape, const std::vector<Index>& places, const DatasetShape& trained) {
  const StoredRows all(trained), here(shape);
  std::vector<std::vector<bool>> taken;
  for (std::size_t f = 0; f < trained.file_samples.size(); ++f)
    taken.emplace_back(static_cast<std::size_t>(all.rows_of_file(f)));
  const auto for_each_row = [](const StoredRows& stored, Index samples, const auto& visit) {
    stored.for_each_run({0, samples}, [&](const RowRun& run) {
      for (Index row = run.rows.first; row < run.rows.first + run.rows.count; ++row)
        visit(run.file, static_cast<std::size_t>(row));
    });
  };
  for_each_row(all, trained.samples, [&](std::size_t file, std::size_t row) { taken[file][row] = true; });
  Index common = 0;
  for_each_row(here, shape.samples, [&](std::size_t file, std::size_t row) {
    if (places[file] < 0) return;
    const std::vector<bool>& of_file = taken[static_cast<std::size_t>(places[file])];
    if (row < of_file.size() && of_file[row]) ++common;
  });
  return common;
}

}  // namespace

std::string training_rows_text(const ModelChoice& choice, const DatasetSpec& spec, const DatasetShape& shape,
                               Comm& world) {
  DatasetSpec train = choice.config.data.train;
  if (train.sample_names() != spec.sample_names()) return "";
  find_from_run(train.files, choice);
  const std::vector<Index> at = places(spec.files, train.files, world);
  const auto own = std::ranges::find_if(at, [](Index place) { return place >= 0; });
  if (own == at.end()) return "";
  const std::string name = choice.run.empty() ? choice.file : choice.run;
  const char* instead = "without --files and --samples only validation rows are taken";
  const std::optional<DatasetShape> trained = rows_of_training(train, world);
  if (!trained)
    return fmt::format("{}: {} holds rows that it was trained on; {}", name,
                       spec.files[static_cast<std::size_t>(own - at.begin())], instead);
  const Index common = count_common(shape, at, *trained);
  if (common == 0) return "";
  return fmt::format("{}: {} of these {} rows are training rows; {}", name, common, shape.samples, instead);
}

}  // namespace mrmf
