#include "src/checkpoint_file.hpp"

#include <fmt/format.h>

#include <vector>

#include "io/agreement.hpp"
#include "io/atomic_file.hpp"
#include "io/hdf5.hpp"
#include "src/model_parts.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {
namespace {

constexpr const char* kFormat = "mrmf checkpoint 1";

struct Array {
  std::string name;
  std::vector<Index> shape;
  Span place;                 // in the backend's memory
  std::vector<float> values;  // on the host; one row per rank where ranks differ
  bool per_rank = false;

  std::span<float> row(int rank) {
    return std::span(values).subspan(per_rank ? static_cast<std::size_t>(rank) * place.size() : 0, place.size());
  }
};

Array make_array(const std::string& group, const PartPlace& part, Span arena) {
  return {group + part.name, part.shape, part.in(arena), std::vector<float>(part.count)};
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
      array.per_rank = true;
      array.shape.insert(array.shape.begin(), ranks);
      array.values.resize(part.count * static_cast<std::size_t>(ranks));
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

void collect(Backend& backend, std::vector<Array>& arrays, Comm& team) {
  for (Array& array : arrays) {
    backend.read(array.place, array.row(team.rank()));
    if (array.per_rank)
      for (int rank = 0; rank < team.size(); ++rank) team.broadcast(array.row(rank), rank);
  }
}

void distribute(Backend& backend, std::vector<Array>& arrays, Comm& team) {
  for (Array& array : arrays) {
    team.broadcast(array.values, 0);
    backend.write(array.row(team.rank()), array.place);
  }
}

std::string checksum(const std::vector<Array>& arrays) {
  XXH64_hash_t hash = 0;
  for (const Array& array : arrays) {
    hash = XXH3_64bits_withSeed(array.name.data(), array.name.size(), hash);
    hash = XXH3_64bits_withSeed(array.values.data(), array.values.size() * sizeof(float), hash);
  }
  return fmt::format("{:016x}", hash);
}

std::string checksum(const CheckpointTexts& texts) {
  const XXH64_hash_t hash = XXH3_64bits(texts.progress.data(), texts.progress.size());
  return fmt::format("{:016x}", XXH3_64bits_withSeed(texts.config.data(), texts.config.size(), hash));
}

void write(const std::string& path, const std::vector<Array>& arrays, const CheckpointTexts& texts) {
  const Comm alone = Comm::self();
  PartialFile partial(path, alone);
  Hdf5File file = Hdf5File::create(partial.path());
  file.write_attribute("format", kFormat);
  file.write_attribute("array checksum", checksum(arrays));
  file.write_attribute("text checksum", checksum(texts));
  for (const Array& array : arrays) {
    file.create_dataset(array.name, array.shape);
    file.write_rows(array.name, 0, array.values);
  }
  file.write_text("progress", texts.progress);
  file.write_text("config", texts.config);
  file.close();
  partial.commit();
}

[[noreturn]] void damaged(const std::string& what) {
  throw DataError(what +
                  "; a checkpoint that cannot be used: restore it from a copy, or remove it to go on from the "
                  "checkpoint before it if there is one, or begin anew with --overwrite");
}

Hdf5File open(const std::string& path) {
  Hdf5File file = Hdf5File::open(path, Comm::self());
  const std::string format = file.read_attribute("format");
  if (format != kFormat)
    throw DataError(fmt::format("{}: its format is \"{}\" and this mrmf reads \"{}\"", path, format, kFormat));
  return file;
}

void read(const std::string& path, std::vector<Array>& arrays) try {
  const Hdf5File file = open(path);
  for (Array& array : arrays) {
    if (file.info(array.name).shape != array.shape)
      throw DataError(path + ": data set " + array.name + " has another shape than this model's layer");
    file.read_rows(array.name, 0, array.shape.front(), array.values);
  }
  if (checksum(arrays) != file.read_attribute("array checksum"))
    throw DataError(path + ": its arrays do not have the checksum that was written with them");
} catch (const DataError& error) {
  damaged(error.what());
}

}  // namespace

void save_checkpoint(Backend& backend, const std::string& path, Learner& learner, const CheckpointTexts& texts,
                     StateRows rows, Comm& team) {
  std::vector<Array> arrays = arrays_of(learner, rows, team.size());
  collect(backend, arrays, team);
  together(team, [&] {
    if (team.root()) write(path, arrays, texts);
  });
}

CheckpointTexts read_checkpoint_texts(const std::string& path) try {
  const Hdf5File file = open(path);
  const CheckpointTexts texts{file.read_text("progress"), file.read_text("config")};
  if (checksum(texts) != file.read_attribute("text checksum"))
    throw DataError(path + ": its texts do not have the checksum that was written with them");
  return texts;
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
