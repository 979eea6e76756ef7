#include "src/run/checkpoint_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "io/checksummed_file.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_output.hpp"
#include "mpi/agreement.hpp"
#include "src/run/model_parts.hpp"

namespace mrmf {
namespace {

constexpr const char* kFormat = "mrmf checkpoint 1";
constexpr std::size_t kHeaders = 65536, kHeader = 4096;  // generous: of a file in HDF5, and of a data set in it

struct Array {
  std::string name;
  std::vector<Index> shape;
  Span place;                   // in the backend's memory
  std::size_t rows = 1;         // one per rank where ranks differ
  std::vector<float> values{};  // on the host, while they are there

  std::size_t bytes() const { return rows * place.size_bytes(); }
  void make_room() { values.resize(rows * place.size()); }
  void give_back() { values = std::vector<float>(); }  // = {} would keep the memory
  std::span<float> row(int rank) {
    return std::span(values).subspan(rows > 1 ? static_cast<std::size_t>(rank) * place.size() : 0, place.size());
  }
};

Array make_array(const std::string& group, const PartPlace& part, Span arena) {
  return {group + part.name, part.shape, part.in(arena)};
}

std::vector<Array> arrays_of(Learner& learner, StateRows rows, int ranks) {
  const Network& network = learner.model.network();
  const std::vector<PartPlace> parameters = parameter_places(network);
  std::vector<Array> arrays;
  for (const PartPlace& part : parameters) arrays.push_back(make_array("parameters/", part, learner.model.params()));
  const std::vector<Span> moments = learner.optimizer.moments();
  for (std::size_t i = 0; i < moments.size(); ++i)
    for (const PartPlace& part : parameters)
      arrays.push_back(make_array(fmt::format("moments/{}/", i + 1), part, moments[i]));
  for (const PartPlace& part : state_places(network)) {
    Array array = make_array("state/", part, learner.model.state());
    if (rows == StateRows::one_per_rank) {
      array.shape.insert(array.shape.begin(), ranks);
      array.rows = static_cast<std::size_t>(ranks);
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

// What other ranks than the root have.
void collect(Backend& backend, std::vector<Array>& arrays, Comm& team) {
  for (Array& array : arrays) {
    if (array.rows == 1) continue;
    array.make_room();
    backend.read(array.place, array.row(team.rank()));
    for (int rank = 0; rank < team.size(); ++rank) team.broadcast(array.row(rank), rank);
  }
}

void distribute(Backend& backend, std::vector<Array>& arrays, Comm& team) {
  for (Array& array : arrays) {
    array.make_room();
    team.broadcast(array.values, 0);
    backend.write(array.row(team.rank()), array.place);
    array.give_back();
  }
}

// Array by array: the learner's size in memory twice, as a file and as its bytes, which
// src/training/memory_estimate.cpp counts.
std::string image(Backend& backend, const std::string& path, std::vector<Array>& arrays, const CheckpointTexts& texts) {
  std::size_t size = kHeaders + texts.progress.size() + texts.config.size();
  for (const Array& array : arrays) size += kHeader + array.bytes();
  Hdf5Image file(path, size);
  file.write_attribute("format", kFormat);
  for (Array& array : arrays) {
    if (array.values.empty()) {
      array.make_room();
      backend.read(array.place, array.values);
    }
    file.add(array.name, array.shape, array.values);
    array.give_back();
  }
  file.write_text("progress", texts.progress);
  file.write_text("config", texts.config);
  return file.bytes();
}

void write(Backend& backend, const std::string& path, std::vector<Array>& arrays, const CheckpointTexts& texts) {
  write_checksummed(path, image(backend, path, arrays, texts), Replace::file);
}

[[noreturn]] void damaged(const std::string& what) {
  throw DataError(what +
                  "; restore it from a copy, or remove it to go on from the "
                  "checkpoint before it if there is one, or begin anew with --overwrite");
}

void require_whole(const std::string& path) {
  if (verify(path) != Checksum::right)
    throw DataError(path + ": torn, damaged or no checkpoint: it does not end with the checksum of what it holds");
}

Hdf5File open(const std::string& path) {
  require_whole(path);
  Hdf5File file = Hdf5File::open(path, Comm::self());
  const std::string format = file.read_attribute("format");
  if (format != kFormat)
    throw DataError(fmt::format("{}: its format is \"{}\" and this mrmf reads \"{}\"", path, format, kFormat));
  return file;
}

// What this learner has no place for, it would go on without, and nobody would know.
void require_nothing_else(const std::string& path, const std::vector<Array>& arrays) {
  std::set<std::string> expected{"progress", "config"};
  for (const Array& array : arrays) expected.insert(array.name);
  for (const std::string& name : all_datasets(path))
    if (!expected.contains(name))
      throw DataError(path + ": data set " + name + " is not of this model and its optimizer");
}

void read(const std::string& path, std::vector<Array>& arrays) try {
  const Hdf5File file = open(path);
  for (Array& array : arrays) {
    if (file.info(array.name).shape != array.shape)
      throw DataError(path + ": data set " + array.name + " has another shape than this model's layer");
    array.make_room();
    file.read_rows(array.name, 0, array.shape.front(), array.values);
  }
  require_nothing_else(path, arrays);
} catch (const DataError& error) {
  damaged(error.what());
}

}  // namespace

void save_checkpoint(Backend& backend, const std::string& path, Learner& learner, const CheckpointTexts& texts,
                     StateRows rows, Comm& team) {
  std::vector<Array> arrays = arrays_of(learner, rows, team.size());
  collect(backend, arrays, team);
  together(team, [&] {
    if (team.root()) write(backend, path, arrays, texts);
  });
}

CheckpointTexts read_checkpoint_texts(const std::string& path) try {
  const Hdf5File file = open(path);
  return {file.read_text("progress"), file.read_text("config")};
} catch (const DataError& error) {
  damaged(error.what());
}

void load_checkpoint(Backend& backend, const std::string& path, Learner& learner, StateRows rows, Comm& team) {
  std::vector<Array> arrays = arrays_of(learner, rows, team.size());
  together(team, [&] {
    if (team.root()) read(path, arrays);
  });
  distribute(backend, arrays, team);
}

}  // namespace mrmf
