#include "src/run/model_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "io/checksummed_file.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_output.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

void add(std::vector<PartPlace>& places, const std::string& layer, const std::vector<Part>& parts, Index first) {
  for (const Part& part : parts) {
    places.push_back(
        {layer + "/" + part.name, part.shape, static_cast<std::size_t>(first), static_cast<std::size_t>(part.count())});
    first += part.count();
  }
}

constexpr const char *kFormat = "mrmf model 1", *kCheckpointFormat = "mrmf checkpoint 1";  // the latter has more in it

// Calls visit(data set name, its shape, its span) for every part of every layer.
template <typename Floats, typename Visit>
void for_each_part(const Network& network, Floats params, Floats state, const Visit& visit) {
  for (const PartPlace& part : parameter_places(network)) visit("parameters/" + part.name, part.shape, part.in(params));
  for (const PartPlace& part : state_places(network)) visit("state/" + part.name, part.shape, part.in(state));
}

void write_model(Backend& backend, const std::string& path, const Model& model, const ModelTexts& texts,
                 Replace replace) {
  Hdf5Image file(path, 0);
  file.write_attribute("format", kFormat);
  file.write_attribute("sample", to_string(model.network().input()));
  constexpr std::size_t most = 60000;  // of an attribute, with room for its header
  if (texts.config.size() < most)
    file.write_attribute("config", texts.config);
  else
    file.write_text("config", texts.config);
  if (!texts.epoch.empty()) file.write_attribute("epoch", texts.epoch);
  for_each_part(model.network(), model.params(), model.state(),
                [&](const std::string& name, const std::vector<Index>& shape, ConstSpan values) {
                  std::vector<float> host(values.size());
                  backend.read(values, host);
                  file.add(name, shape, host);
                });
  write_checksummed(path, file.bytes(), replace);
}

// Before HDF5 opens the file. The same on every rank.
Checksum require_whole(const std::string& path, Comm& comm) {
  std::int64_t checksum = 0;
  collective_try(comm, [&] {
    if (comm.root()) checksum = static_cast<std::int64_t>(verify(path));
  });
  comm.broadcast(std::span(&checksum, 1), 0);
  if (static_cast<Checksum>(checksum) == Checksum::wrong)
    throw DataError(path +
                    ": damaged or cut short: it does not end with the checksum of what it holds; restore it from a "
                    "copy, or train again");
  return static_cast<Checksum>(checksum);
}

// Otherwise a run would silently compute without data for which this model has no place. Checkpoints hold more than a
// model.
void require_nothing_else(const std::string& path, const Network& network) {
  std::set<std::string> expected;
  for (const PartPlace& part : parameter_places(network)) expected.insert("parameters/" + part.name);
  for (const PartPlace& part : state_places(network)) expected.insert("state/" + part.name);
  for (const std::string& name : all_datasets(path))
    if ((name.starts_with("parameters/") || name.starts_with("state/")) && !expected.contains(name))
      throw DataError(path + ": data set " + name +
                      " is of no layer of this model; was it trained with another network?");
}

}  // namespace

std::vector<PartPlace> parameter_places(const Network& network) {
  std::vector<PartPlace> places;
  for (const Entry& entry : network.entries()) add(places, entry.name, entry.footprint.params, entry.params.first);
  return places;
}

std::vector<PartPlace> state_places(const Network& network) {
  std::vector<PartPlace> places;
  for (const Entry& entry : network.entries()) add(places, entry.name, entry.footprint.state, entry.state.first);
  return places;
}

std::string last_model_path(const std::string& run) {
  return (std::filesystem::path(run) / "checkpoints" / "final.h5").string();
}

std::string best_model_path(const std::string& run) {
  return (std::filesystem::path(run) / "checkpoints" / "best.h5").string();
}

std::string model_path(const std::string& run, WhichEpoch which) {
  std::error_code none;
  const std::string best = best_model_path(run);
  return which == WhichEpoch::best && std::filesystem::exists(best, none) ? best : last_model_path(run);
}

// One rank writes alone, so that nobody waits in a collective call of MPI-IO, which has no time limit.
void save_model(Backend& backend, const std::string& path, const Model& model, const ModelTexts& texts, Comm& comm,
                Replace replace) {
  collective_try(comm, [&] {
    if (comm.root()) write_model(backend, path, model, texts, replace);
  });
}

Hdf5File open_model(const std::string& path, Comm& comm, Checksum& checksum) {
  checksum = require_whole(path, comm);
  Hdf5File file = Hdf5File::open(path, comm);
  const std::string format = file.read_attribute("format");
  if (format != kFormat && format != kCheckpointFormat)
    throw DataError(path + ": not a model written by mrmf (attribute \"format\" is not \"" + kFormat + "\")");
  return file;
}

Checksum load_model(Backend& backend, const std::string& path, Model& model, Comm& comm) {
  Checksum checksum{};
  const Hdf5File file = open_model(path, comm, checksum);
  for_each_part(model.network(), model.params(), model.state(),
                [&](const std::string& name, const std::vector<Index>& shape, Span values) {
                  const DatasetInfo info = file.info(name);
                  if (info.shape != shape)
                    throw DataError(path + ": data set " + name +
                                    " has another shape than this model's layer; was it " +
                                    "trained with another network or resolution?");
                  std::vector<float> host(values.size());
                  if (comm.root()) file.read_rows(name, 0, shape.front(), host);
                  comm.broadcast(host, 0);
                  backend.write(host, values);
                });
  collective_try(comm, [&] {
    if (comm.root()) require_nothing_else(path, model.network());
  });
  return checksum;
}

void require_finite(Backend& backend, const Model& model, const std::string& file) {
  for_each_part(model.network(), model.params(), model.state(),
                [&](const std::string& name, const std::vector<Index>&, ConstSpan values) {
                  std::vector<float> host(values.size());
                  backend.read(values, host);
                  if (!std::ranges::all_of(host, [](float w) { return std::isfinite(w); }))
                    throw DataError(fmt::format(
                        "{}: data set '{}' holds NaN or an infinity: this model cannot compute; train it again, or "
                        "restore the file from a copy",
                        file, name));
                });
}

ModelFacts read_model_facts(const std::string& path, Comm& comm) {
  Checksum checksum{};
  const Hdf5File file = open_model(path, comm, checksum);
  ModelFacts facts;
  facts.checkpoint = file.read_attribute("format") == kCheckpointFormat;
  facts.sample = file.read_attribute("sample");
  facts.config = file.read_attribute("config");
  if (facts.config.empty() && file.has("config")) facts.config = file.read_text("config");
  return facts;
}

}  // namespace mrmf
