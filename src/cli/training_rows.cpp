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
  train.name_labels({});
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
  std::vector<std::map<std::string, std::size_t>> groups(trained.groups.size());  // rows by the names of groups
  for (std::size_t f = 0; f < groups.size(); ++f)
    for (const std::string& name : *trained.groups[f].names) groups[f].emplace(name, groups[f].size());
  const auto row_of = [&](std::size_t file, std::size_t row, std::size_t in) {  // as training counts it
    if (groups.empty() || shape.groups.empty()) return row;
    const auto found = groups[in].find((*shape.groups[file].names)[row]);
    return found == groups[in].end() ? taken[in].size() : found->second;
  };
  Index common = 0;
  for_each_row(here, shape.samples, [&](std::size_t file, std::size_t row) {
    if (places[file] < 0) return;
    const auto in = static_cast<std::size_t>(places[file]);
    const std::size_t at = row_of(file, row, in);
    if (at < taken[in].size() && taken[in][at]) ++common;
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
