#include "src/run/checkpoint_arrays.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/output.hpp"
#include "kernels/errors.hpp"
#include "layers/network.hpp"
#include "mpi/comm.hpp"
#include "src/run/model_file.hpp"
#include "src/run/records_and_train_state.hpp"

namespace mrmf::checkpoint {
namespace {

Array make_array(const std::string& group, const TensorSpan& part, Span arena) {
  Array array{group + part.name, part.shape, part.in(arena)};
  array.cut = part.cut;
  return array;
}

// A row for each worker.
void add_workers(std::vector<Array>& arrays, const SavedArrays& model, const std::string& group,
                 const std::vector<Span>& of) {
  if (of.empty()) return;
  for (const TensorSpan& part : parameter_spans(model.network, model.layout)) {
    Array array{group + part.name, part.shape, {}};
    array.shape.insert(array.shape.begin(), model.workers.all);
    array.rows = static_cast<std::size_t>(model.workers.all);
    for (const Span own : of) array.workers.push_back(part.in(own));
    arrays.push_back(std::move(array));
  }
}

void add_best(std::vector<Array>& arrays, const SavedArrays& model, HostModel& best) {
  for (const TensorSpan& part : parameter_spans(model.network, model.layout))
    arrays.push_back(make_array("best/parameters/", part, best.params)), arrays.back().on_host = true;
  for (const TensorSpan& part : state_spans(model.network))
    arrays.push_back(make_array("best/state/", part, best.state)), arrays.back().on_host = true;
}

/// What saves an array: its file is open on the root alone. Collective.
struct Saving {
  Hdf5Output* file;
  Comm& team;

  void write(const std::string& name, std::size_t first, ConstSpan values) const {
    collective_try(team, [&] {
      if (team.root()) file->write_values(name, static_cast<Index>(first), values);
    });
  }
};

// The root gets the rows one by one, of which each rank has so many: read(i, row) fills those of this rank.
template <typename Read>
void save_rows(const Saving& to, const Array& array, std::size_t own, const Read& read) {
  std::vector<float> row(array.count());
  for (std::size_t i = 0; i < array.rows; ++i) {
    const int rank = static_cast<int>(i / own);
    if (to.team.rank() == rank) read(i % own, Span(row));
    if (rank != 0) to.team.broadcast(row, rank);
    to.write(array.name, i * row.size(), row);
  }
}

// The root gets what any rank has. Where several have a value, in front of a run's first sum, it is the same.
void collect_pieces(Backend& backend, Array& array, Comm& team) {
  std::vector<float> piece(array.count());
  if (team.root()) array.make_room();
  for (int rank = 0; rank < team.size(); ++rank) {
    if (team.rank() == rank) array.read(backend, piece);
    if (rank != 0) team.broadcast(piece, rank);
    for (std::size_t i = 0; team.root() && i < piece.size(); ++i)
      if (piece[i] != 0) array.values[i] = piece[i];
  }
}

/// What loads an array: its file is open on the root alone. Collective.
struct Loading {
  const Hdf5File* file;
  Comm& team;

  /// Rows of the first axis, on every rank.
  void read(const std::string& name, std::size_t first, std::size_t rows, Span values) const {
    collective_try(team, [&] {
      if (team.root()) file->read_rows(name, static_cast<Index>(first), static_cast<Index>(rows), values);
    });
    team.broadcast(values, 0);
  }
};

// Every worker gets its row; of another number of rows than there are workers, their mean, or of residuals its share of
// their sum.
void distribute_workers(Backend& backend, const Loading& from, const Array& array) {
  const std::size_t own = array.workers.size(), all = own * static_cast<std::size_t>(from.team.size());
  std::vector<float> row(array.count()), sum(array.rows == all ? 0 : row.size());
  const std::size_t parts = array.name.starts_with("residuals/") ? all : array.rows;
  for (std::size_t i = 0; i < array.rows; ++i) {
    from.read(array.name, i, 1, row);
    if (array.rows != all)
      std::ranges::transform(sum, row, sum.begin(),
                             [&](float a, float value) { return a + value / static_cast<float>(parts); });
    else if (static_cast<std::size_t>(from.team.rank()) == i / own)
      backend.write(row, array.workers[i % own]);
  }
  if (array.rows == all) return;
  for (const Span worker : array.workers) backend.write(sum, worker);
}

}  // namespace

std::vector<Array> arrays_of(const SavedArrays& model, StateRows rows, int ranks) {
  const std::vector<TensorSpan> parameters = parameter_spans(model.network, model.layout);
  std::vector<Array> arrays;
  for (const TensorSpan& part : parameters) arrays.push_back(make_array("parameters/", part, model.params));
  add_workers(arrays, model, "moments/1/", model.workers.momenta);
  add_workers(arrays, model, "residuals/", model.workers.residuals);
  if (!model.workers.sum_residual.empty())
    for (const TensorSpan& part : parameters)
      arrays.push_back(make_array("sum_residual/", part, model.workers.sum_residual)), arrays.back().pieces = true;
  for (std::size_t i = model.workers.momenta.empty() ? 0 : 1; i < model.moments.size(); ++i)
    for (const TensorSpan& part : parameters)
      arrays.push_back(make_array(fmt::format("moments/{}/", i + 1), part, model.moments[i]));
  for (const TensorSpan& part : state_spans(model.network)) {
    Array array = make_array("state/", part, model.state);
    if (rows == StateRows::one_per_rank) {
      array.shape.insert(array.shape.begin(), ranks);
      array.rows = static_cast<std::size_t>(ranks);
    }
    arrays.push_back(std::move(array));
  }
  if (model.best != nullptr && !model.best->empty()) add_best(arrays, model, *model.best);
  return arrays;
}

void write_array(Backend& backend, Hdf5Output& file, Array& array, const std::vector<Index>& shape) {
  if (array.values.empty())
    return write_parts(file, array.name, shape, array.memory.size(),
                       [&](std::size_t first, Span some) { array.read(backend, some, first); });
  file.create_dataset(array.name, shape);
  file.write_values(array.name, 0, array.values);
  array.give_back();
}

void save_array(Backend& backend, Hdf5Output* file, Array& array, Comm& team, Comm* sample_group) {
  const Saving to{file, team};
  if (array.cut != nullptr) {
    MRMF_CHECK(sample_group != nullptr, "weights that are cut over no ranks");
    std::vector<float> own(array.memory.size());
    array.read(backend, own);
    if (team.root()) array.make_room();
    gather(*array.cut, own, *sample_group, array.values);
  } else if (array.pieces) {
    collect_pieces(backend, array, team);
  }
  const bool by_rows = !array.workers.empty() || array.rows > 1;
  collective_try(team, [&] {
    if (!team.root()) return;
    if (by_rows)
      file->create_dataset(array.name, array.shape);
    else
      write_array(backend, *file, array, array.shape);
  });
  if (!array.workers.empty())
    save_rows(to, array, array.workers.size(), [&](std::size_t i, Span row) { backend.read(array.workers[i], row); });
  else if (by_rows)
    save_rows(to, array, 1, [&](std::size_t, Span row) { array.read(backend, row); });
}

namespace {

// Some rows of the first axis at a time.
void distribute_plain(Backend& backend, const Loading& from, const Array& array) {
  read_parts({from.file, array.name, array.shape}, from.team,
             [&](ConstSpan some, std::size_t first) { array.write(backend, some, first); });
}

}  // namespace

void distribute(Backend& backend, const Hdf5File* file, Array& array, Comm& team) {
  const Loading from{file, team};
  if (array.plain()) return distribute_plain(backend, from, array);
  if (!array.workers.empty()) {
    auto rows = static_cast<std::int64_t>(array.rows);
    team.broadcast(std::span(&rows, 1), 0);
    array.rows = static_cast<std::size_t>(rows);
    return distribute_workers(backend, from, array);
  }
  std::vector<float> values(array.count());
  for (std::size_t rank = 0; array.rows > 1 && rank < array.rows; ++rank) {
    from.read(array.name, rank, 1, values);
    if (static_cast<std::size_t>(team.rank()) == rank) array.write(backend, values);
  }
  if (array.rows > 1) return;
  from.read(array.name, 0, static_cast<std::size_t>(array.shape.front()), values);
  if (array.cut == nullptr) return array.write(backend, values);
  std::vector<float> own(array.memory.size());
  array.cut->take(values, own);
  array.write(backend, own);
}

namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

constexpr const char* kBlockFormat = "mrmf block of a checkpoint 1";

// "phase-1" of "phase-1.h5" and of "phase-1-before.h5", which have the same files.
std::string stem_of(const std::string& checkpoint) {
  std::string stem = fs::path(checkpoint).stem().string();
  if (const std::string before = "-before"; stem.ends_with(before)) stem.resize(stem.size() - before.size());
  return stem;
}

std::string block_path(const std::string& checkpoint, int save, std::size_t block) {
  return (fs::path(checkpoint).parent_path() / fmt::format("{}-save-{}-block-{}.h5", stem_of(checkpoint), save, block))
      .string();
}

/// The number of the save that a block's file is of; 0: it is none of this checkpoint's.
int save_of(const std::string& name, const std::string& stem) {
  static const std::regex form(
      "((?:phase|step)-[0-9]+)-save-([0-9]{1,9})-block-[0-9]+\\.h5(\\.partial(-[0-9a-f]{16})?)?");
  std::smatch parts;
  if (!std::regex_match(name, parts, form) || (!stem.empty() && parts[1] != stem)) return 0;
  return std::stoi(parts[2]);
}

template <class Use>
void for_each_file(const std::string& checkpoint, const Use& use) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(fs::path(checkpoint).parent_path(), none))
    if (const int save = save_of(entry.path().filename().string(), stem_of(checkpoint)); save > 0)
      use(entry.path(), save);
}

int next_save(const std::string& checkpoint) {
  int last = 0;
  for_each_file(checkpoint, [&](const fs::path&, int save) { last = std::max(last, save); });
  return last + 1;
}

// Whether an array's weights are of one output position each.
bool is_untied(const Array& array) { return array.cut != nullptr && array.cut->is_untied(); }

// The digits at a whole file's end.
std::string checksum_of(const std::string& path, const std::string& checkpoint) {
  std::error_code none;
  const std::string advice = "; restore it from a copy, or begin anew with --overwrite";
  if (!fs::exists(path, none))
    throw DataError(fmt::format("{}: is missing, and {} needs it{}", path, checkpoint, advice));
  if (verify(path) != Checksum::right)
    throw DataError(path + ": torn or damaged: it does not end with the checksum of what it holds" + advice);
  return checksum_at_end(path);
}

void require_block(const std::string& checkpoint, const Blocks& blocks, std::size_t block) {
  const std::string path = block_path(checkpoint, blocks.save, block);
  if (checksum_of(path, checkpoint) != blocks.checksums.at(block))
    throw DataError(path + ": is not the file that " + checkpoint +
                    " was saved with; restore it from a copy, or begin anew with --overwrite");
}

void write_block(Backend& backend, const std::string& path, std::vector<Array>& arrays) {
  Hdf5Output file(path, Replace::nothing, Comm::self(), Hdf5Output::End::checksum);
  file.write_attribute("format", kBlockFormat);
  for (Array& array : arrays) {
    const Index values = array.cut->whole.channels;
    write_array(backend, file, array, {static_cast<Index>(array.memory.size()) / values, values});
  }
  file.commit();
}

/// A box of an array as floats, in order.
struct BoxValues {
  Box box;
  Index values;
  Index line(const Extent& at) const {
    return (((at[0] - box.first[0]) * box.count[1] + at[1] - box.first[1]) * box.count[2] + at[2] - box.first[2]) *
           values;
  }
};

void copy(const BoxValues& from, ConstSpan values, const BoxValues& to, Span target, const Box& both) {
  for (Index i = both.first[0]; i < both.end(0); ++i)
    for (Index j = both.first[1]; j < both.end(1); ++j)
      std::copy_n(values.data() + from.line({i, j, both.first[2]}), both.count[2] * from.values,
                  target.data() + to.line({i, j, both.first[2]}));
}

}  // namespace

std::string to_json(const Blocks& blocks) {
  if (blocks.empty()) return "";
  SortedJson json{{"save", blocks.save}, {"checksums", blocks.checksums}, {"arrays", SortedJson::object()}};
  for (const auto& [name, array] : blocks.arrays) {
    SortedJson boxes = SortedJson::array();
    for (const Box& box : array.boxes) boxes.push_back({box.first, box.count});
    json["arrays"][name] = {{"positions", array.positions}, {"values", array.values}, {"boxes", boxes}};
  }
  return json.dump();
}

Blocks blocks_from_json(const std::string& text, const std::string& checkpoint) try {
  Blocks blocks;
  if (text.empty()) return blocks;
  require_shallow_json(text, checkpoint);
  const SortedJson json = SortedJson::parse(text);
  blocks.save = whole_number<int>(json.at("save"));
  blocks.checksums = json.at("checksums").get<std::vector<std::string>>();
  const auto extent = [](const SortedJson& from) { return from.get<Extent>(); };
  for (const auto& [name, from] : json.at("arrays").items()) {
    ArrayBlocks array{extent(from.at("positions")), whole_number<Index>(from.at("values"))};
    for (const SortedJson& box : from.at("boxes")) array.boxes.push_back({extent(box.at(0)), extent(box.at(1))});
    const auto lies_inside = [&](const Box& box) { return contains({.count = array.positions}, box); };
    if (array.values < 1 || array.boxes.size() != blocks.checksums.size() ||
        !std::ranges::all_of(array.boxes, lies_inside))
      throw DataError(checkpoint + ": its blocks do not fit the array " + name + "; restore it from a copy");
    blocks.arrays.emplace(name, std::move(array));
  }
  return blocks;
} catch (const Error&) {
  throw;
} catch (const std::exception& error) {
  throw DataError(
      fmt::format("{}: what it says of its blocks is damaged ({}); restore it from a copy", checkpoint, error.what()));
}

std::vector<Array> take_out(std::vector<Array>& arrays, const Blocks& blocks) {
  const auto first =
      std::ranges::stable_partition(arrays, [&](const Array& array) { return !blocks.arrays.contains(array.name); });
  std::vector<Array> taken(std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()));
  arrays.erase(first.begin(), first.end());
  return taken;
}

Blocks write_blocks(Backend& backend, const std::string& checkpoint, std::vector<Array>& arrays, Comm* sample_group,
                    Comm& team) {
  Blocks blocks;
  for (const Array& array : arrays)
    if (is_untied(array))
      blocks.arrays.emplace(array.name,
                            ArrayBlocks{array.cut->whole.spatial, array.cut->whole.channels, array.cut->boxes});
  if (blocks.empty()) return blocks;
  MRMF_CHECK(sample_group != nullptr, "weights that are cut over no ranks");
  std::vector<Array> own = take_out(arrays, blocks);
  std::int64_t save = team.root() ? next_save(checkpoint) : 0;
  team.broadcast(std::span(&save, 1), 0);
  blocks.save = static_cast<int>(save);
  // The first group's ranks are the team's first ones. Other groups have the same values.
  const auto block = static_cast<std::size_t>(team.rank());
  const bool writes = team.rank() < sample_group->size();
  const std::string path = block_path(checkpoint, blocks.save, block);
  std::string checksum;
  try {
    collective_try(team, [&] {
      if (!writes) return;
      write_block(backend, path, own);
      checksum = checksum_at_end(path);
    });
  } catch (...) {
    if (writes) ::unlink(path.c_str());
    throw;
  }
  for (int rank = 0; rank < sample_group->size(); ++rank) {
    std::string of = rank == team.rank() ? checksum : "";
    team.broadcast(of, rank);
    blocks.checksums.push_back(std::move(of));
  }
  return blocks;
}

std::vector<float> read_box(const std::string& checkpoint, const Blocks& blocks, const std::string& array,
                            const Box& box) {
  const ArrayBlocks& parts = blocks.arrays.at(array);
  std::vector<float> all(static_cast<std::size_t>(product(box.count) * parts.values));
  Index found = 0;
  for (std::size_t block = 0; block < parts.boxes.size(); ++block) {
    const Box &there = parts.boxes[block], both = intersection(there, box);
    if (both.empty()) continue;
    require_block(checkpoint, blocks, block);
    const Hdf5File file = Hdf5File::open(block_path(checkpoint, blocks.save, block), Comm::self());
    if (file.info(array).shape != std::vector<Index>{product(there.count), parts.values})
      throw DataError(block_path(checkpoint, blocks.save, block) + ": data set " + array +
                      " has another shape than the checkpoint says; restore both from a copy");
    if (there == box) {
      file.read_rows(array, 0, product(there.count), all);
    } else {
      std::vector<float> values(static_cast<std::size_t>(product(there.count) * parts.values));
      file.read_rows(array, 0, product(there.count), values);
      copy({there, parts.values}, values, {box, parts.values}, all, both);
    }
    found += product(both.count);
  }
  if (found != product(box.count))
    throw DataError(checkpoint + ": its blocks do not have all of " + array + "; restore them from a copy");
  return all;
}

void read_blocks(Backend& backend, const std::string& checkpoint, const Blocks& blocks,
                 const std::vector<Array>& arrays) {
  for (const Array& array : arrays) {
    const ArrayBlocks& parts = blocks.arrays.at(array.name);
    const bool fits = array.cut != nullptr ? array.cut->is_untied() && array.cut->whole.spatial == parts.positions &&
                                                 array.cut->whole.channels == parts.values
                                           : static_cast<Index>(array.count()) == parts.count();
    if (!fits)
      throw DataError(checkpoint + ": " + array.name +
                      " has another shape than this model's layer; begin anew with --overwrite");
    const Box whole{.count = parts.positions};
    const Box& own = array.cut != nullptr ? array.cut->boxes.at(static_cast<std::size_t>(array.cut->rank)) : whole;
    array.write(backend, read_box(checkpoint, blocks, array.name, own));
  }
}

void verify_blocks(const std::string& checkpoint, const Blocks& blocks, Comm& comm) {
  const auto files = static_cast<Index>(blocks.checksums.size());
  collective_try(comm, [&] {
    for (Index block = comm.rank(); block < files; block += comm.size())
      require_block(checkpoint, blocks, static_cast<std::size_t>(block));
  });
}

void remove_blocks(const std::string& checkpoint, const std::vector<int>& kept_saves) {
  std::vector<fs::path> files;
  for_each_file(checkpoint, [&](const fs::path& file, int save) {
    if (std::ranges::find(kept_saves, save) == kept_saves.end()) files.push_back(file);
  });
  for (const fs::path& file : files) ::unlink(file.c_str());
}

bool is_block_file(const std::string& name, const std::string& checkpoint) {
  return save_of(name, checkpoint.empty() ? "" : stem_of(checkpoint)) > 0;
}

}  // namespace mrmf::checkpoint
