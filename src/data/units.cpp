#include "src/data/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "io/values/unit_text.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

constexpr const char* kUnknown = "?";  // lists of a configuration have it where an array does not say its units
constexpr const char* kRemedy = "convert one of them, or, if only the attribute 'units' is wrong, correct it";

// Units of some arrays of a data set, in the order of their names.
struct UnitsOf {
  std::vector<std::string> names, units;
};

UnitsOf of_samples(const FoundDataset& data) {
  UnitsOf of{data.spec.sample_names(), data.shape.units};
  of.units.resize(of.names.size());
  return of;
}

UnitsOf of_labels(const FoundDataset& data) {
  const std::size_t samples = std::min(data.spec.sample_names().size(), data.shape.units.size());
  UnitsOf of{data.spec.label_names(),
             {data.shape.units.begin() + static_cast<std::ptrdiff_t>(samples), data.shape.units.end()}};
  of.units.resize(of.names.size());
  return of;
}

bool is_known(const std::string& units) { return !units.empty() && units != kUnknown; }

// The first array of which both lists know other units, as `same` says; the number of arrays where there is none. Lists
// of other lengths are of other arrays.
template <typename Same>
std::size_t first_other(const std::vector<std::string>& here, const std::vector<std::string>& there, Same same) {
  if (here.size() != there.size()) return here.size();
  for (std::size_t i = 0; i < here.size(); ++i)
    if (is_known(here[i]) && is_known(there[i]) && !same(there[i], here[i])) return i;
  return here.size();
}

std::string files_text(const DatasetSpec& spec) { return spec.files.front() + (spec.files.size() > 1 ? ", ..." : ""); }

void require_known_units(const FoundDataset& data, const UnitsOf& of, const std::vector<std::string>& known,
                         const std::string& whose) {
  const std::size_t other = first_other(of.units, known, fit_units);
  if (other == of.units.size()) return;
  const auto [here, there, remedy] = units_difference(of.units[other], known[other]);
  throw DataError(fmt::format("{}: data set '{}' has {}, but {} {}; {}", files_text(data.spec), of.names[other], here,
                              whose, there, remedy.empty() ? kRemedy : remedy));
}

void require_one_each(const std::vector<std::string>& given, const UnitsOf& of, const std::string& key) {
  if (!given.empty() && given.size() != of.names.size())
    throw ConfigError(
        fmt::format("{} has {} units, and there {}; give one for each, in their order, \"{}\" where an array "
                    "says none",
                    key, given.size(),
                    of.names.size() == 1 ? "is 1 array" : fmt::format("are {} arrays", of.names.size()), kUnknown));
}

void fill_in(std::vector<std::string>& own, const std::vector<std::string>& found) {
  if (!own.empty() || std::ranges::none_of(found, is_known)) return;
  own = found;
  std::ranges::replace(own, std::string(), std::string(kUnknown));
}

}  // namespace

void resolve_units(DataConfig& data, const DatasetShape& train) {
  const FoundDataset found{data.train, train};
  const UnitsOf samples = of_samples(found), labels = of_labels(found);
  require_one_each(data.units.samples, samples, "data.units.samples");
  require_one_each(data.units.labels, labels, "data.units.labels");
  require_known_units(found, samples, data.units.samples, "data.units.samples is");
  require_known_units(found, labels, data.units.labels, "data.units.labels is");
  fill_in(data.units.samples, samples.units);
  fill_in(data.units.labels, labels.units);
}

void require_same_units(const FoundDataset& train, const FoundDataset& other, const std::string& part) {
  for (const auto& [here, there] :
       {std::pair(of_samples(other), of_samples(train)), std::pair(of_labels(other), of_labels(train))}) {
    const std::size_t first = first_other(here.units, there.units, same_units);
    if (first == here.units.size()) continue;
    const auto [own, trained, remedy] = units_difference(here.units[first], there.units[first]);
    throw DataError(fmt::format("{}: data set '{}' of the {} data has {}, but '{}' of the training data ({}) {}; {}",
                                files_text(other.spec), here.names[first], part, own, there.names[first],
                                files_text(train.spec), trained, remedy.empty() ? kRemedy : remedy));
  }
}

void require_trained_units(const DataConfig& trained, const FoundDataset& data) {
  require_known_units(data, of_samples(data), trained.units.samples, "the model was trained on");
  require_known_units(data, of_labels(data), trained.units.labels, "the model was trained on");
}

}  // namespace mrmf
