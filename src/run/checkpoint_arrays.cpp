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

// The root gets every worker's row.
void collect_workers(Backend& backend, Array& array, Comm& team) {
  const int own = static_cast<int>(array.workers.size());
  std::vector<float> row(array.count());
  if (team.root()) array.make_room();
  for (int worker = 0; worker < own * team.size(); ++worker) {
    const int rank = worker / own;
    if (team.rank() == rank) backend.read(array.workers[static_cast<std::size_t>(worker % own)], row);
    if (rank != 0) team.broadcast(row, rank);
    if (team.root()) std::ranges::copy(row, array.row(worker).begin());
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

// Every worker gets its row; of another number of rows than there are workers, their mean, or of residuals its share of
// their sum.
void distribute_workers(Backend& backend, Array& array, Comm& team) {
  const std::size_t own = array.workers.size(), all = own * static_cast<std::size_t>(team.size());
  std::vector<float> row(array.count());
  for (std::size_t worker = 0; array.rows == all && worker < all; ++worker) {
    if (team.root()) std::ranges::copy(array.row(static_cast<int>(worker)), row.begin());
    team.broadcast(row, 0);
    if (static_cast<std::size_t>(team.rank()) == worker / own) backend.write(row, array.workers[worker % own]);
  }
  if (array.rows == all) return;
  const std::size_t parts = array.name.starts_with("residuals/") ? all : array.rows;
  for (std::size_t saved = 0; team.root() && saved < array.rows; ++saved)
    std::ranges::transform(row, array.row(static_cast<int>(saved)), row.begin(),
                           [&](float sum, float value) { return sum + value / static_cast<float>(parts); });
  team.broadcast(row, 0);
  for (const Span worker : array.workers) backend.write(row, worker);
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

void collect(Backend& backend, Array& array, Comm& team, Comm* sample_group) {
  if (array.cut != nullptr) {
    MRMF_CHECK(sample_group != nullptr, "weights that are cut over no ranks");
    std::vector<float> own(array.memory.size());
    array.read(backend, own);
    array.make_room();
    gather(*array.cut, own, *sample_group, array.values);
  } else if (!array.workers.empty()) {
    collect_workers(backend, array, team);
  } else if (array.pieces) {
    collect_pieces(backend, array, team);
  } else if (array.rows > 1) {
    array.make_room();
    array.read(backend, array.row(team.rank()));
    for (int rank = 0; rank < team.size(); ++rank) team.broadcast(array.row(rank), rank);
  }
  if (!team.root()) array.give_back();
}

void write_array(Backend& backend, Hdf5Output& file, Array& array, const std::vector<Index>& shape) {
  if (array.values.empty())
    return write_parts(file, array.name, shape, array.memory.size(),
                       [&](std::size_t first, Span some) { array.read(backend, some, first); });
  file.create_dataset(array.name, shape);
  file.write_values(array.name, 0, array.values);
  array.give_back();
}

namespace {

// Some rows of the first axis at a time.
void distribute_plain(Backend& backend, const Hdf5File* file, Array& array, Comm& team) {
  const Index rows = array.shape.front();
  if (array.memory.empty()) return;
  const std::size_t row = array.memory.size() / static_cast<std::size_t>(rows);
  const auto most = static_cast<Index>(std::max<std::size_t>(1, kFloatsAtOnce / row));
  for (Index first = 0; first < rows; first += most) {
    array.values.resize(static_cast<std::size_t>(std::min(most, rows - first)) * row);
    collective_try(team, [&] {
      if (team.root()) file->read_rows(array.name, first, std::min(most, rows - first), array.values);
    });
    team.broadcast(array.values, 0);
    array.write(backend, array.values, static_cast<std::size_t>(first) * row);
  }
}

}  // namespace

void distribute(Backend& backend, const Hdf5File* file, Array& array, Comm& team) {
  if (array.plain()) {
    distribute_plain(backend, file, array, team);
    return array.give_back();
  }
  collective_try(team, [&] {
    if (!team.root()) return;
    array.make_room();
    file->read_rows(array.name, 0, array.shape.front(), array.values);
  });
  if (!array.workers.empty()) {
    auto rows = static_cast<std::int64_t>(array.rows);
    team.broadcast(std::span(&rows, 1), 0);
    array.rows = static_cast<std::size_t>(rows);
    distribute_workers(backend, array, team);
    return array.give_back();
  }
  array.make_room();
  team.broadcast(array.values, 0);
  if (array.cut != nullptr) {
    std::vector<float> own(array.memory.size());
    array.cut->take(array.values, own);
    array.write(backend, own);
  } else {
    array.write(backend, array.row(team.rank()));
  }
  array.give_back();
}

}  // namespace mrmf::checkpoint
