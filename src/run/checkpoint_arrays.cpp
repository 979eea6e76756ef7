#include "src/run/checkpoint_arrays.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/errors.hpp"
#include "layers/network.hpp"
#include "mpi/comm.hpp"
#include "src/run/model_file.hpp"

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
  const auto rows = static_cast<std::size_t>(array.shape.front());
  if (array.memory.empty()) return;
  const std::size_t row = array.memory.size() / rows, most = std::max<std::size_t>(1, kFloatsAtOnce / row);
  std::vector<float> some;
  for (std::size_t first = 0; first < rows; first += most) {
    some.resize(std::min(most, rows - first) * row);
    from.read(array.name, first, std::min(most, rows - first), some);
    array.write(backend, some, first * row);
  }
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

}  // namespace mrmf::checkpoint
