#include "src/inference/training_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/rows/same_rows.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

// The first of the files that is one of a list, under whatever name; "": none is. The root's view on all ranks.
std::string first_listed(const std::vector<std::string>& files, const std::vector<std::string>& list, Comm& world) {
  std::string first;
  if (world.root()) {
    std::set<FileIdentity> listed;  // one look at each file: there may be thousands
    for (const std::string& file : list)
      if (const auto identity = file_identity(file)) listed.insert(*identity);
    const auto found = std::ranges::find_if(files, [&](const std::string& file) {
      const auto identity = file_identity(file);
      return identity && listed.contains(*identity);
    });
    if (found != files.end()) first = *found;
  }
  world.broadcast(first, 0);
  return first;
}

// The rows that the choice of the training data takes; nothing where its files are gone.
std::optional<DatasetShape> rows_of_training(DatasetSpec train, const FoundDataset& known, Comm& world) {
  train.name_labels({});
  train.missing = MissingRule::fill;
  train.not_finite = NotFiniteRule::refuse;  // skipping would read all samples
  try {
    return inspect_dataset(train, known, world);
  } catch (const DataError&) {  // on every rank
    return {};
  } catch (const ConfigError&) {  // the files have other axes now
    return {};
  }
}

}  // namespace

std::string training_rows_text(const ModelChoice& choice, const DatasetSpec& spec, const DatasetShape& shape,
                               Comm& world) {
  DatasetSpec train = choice.config.data.train;
  find_from_run(train.files, choice);
  const std::string name = choice.run.empty() ? choice.file : choice.run;
  const char* instead = "without --files and --samples only validation rows are taken";
  const std::optional<DatasetShape> trained = rows_of_training(train, {spec, shape}, world);
  if (!trained) {
    const std::string known = first_listed(spec.files, train.files, world);
    if (known.empty() || train.sample_names() != spec.sample_names()) return "";
    return fmt::format("{}: {} holds rows that it was trained on; {}", name, known, instead);
  }
  const Index common = count_common_samples({spec, shape}, {train, *trained}, world);
  if (common == 0) return "";
  return fmt::format("{}: {} of these {} rows are training rows; {}", name, common, shape.samples, instead);
}

}  // namespace mrmf
