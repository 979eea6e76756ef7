// The arrays of a checkpoint: their names and shapes, and how the values that ranks have of their own come together in
// the root and go out again. Private to src/run.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "src/run/checkpoint.hpp"
#include "src/run/model_file.hpp"

namespace mrmf::checkpoint {

struct Array {
  std::string name;
  std::vector<Index> shape;
  Span memory;                              // the backend's, or
  bool on_host = false;                     // the host's
  const PartitionedWeights* cut = nullptr;  // the memory has this rank's part
  std::size_t rows = 1;                     // one per rank if ranks differ, or per worker
  bool pieces = false;                      // each rank has some of the values, and zeros for the others
  std::vector<Span> workers{};              // of this rank's workers; the rows of the first rank's come first
  std::vector<float> values{};              // whole, on the host, while they are needed

  std::size_t count() const {
    if (!workers.empty()) return workers.front().size();
    return cut != nullptr ? static_cast<std::size_t>(cut->whole.count()) : memory.size();
  }
  std::size_t bytes() const { return rows * count() * sizeof(float); }
  void make_room() { values.resize(rows * count()); }
  void read(Backend& backend, std::span<float> to) const {
    on_host ? (void)std::ranges::copy(memory, to.begin()) : backend.read(memory, to);
  }
  void write(Backend& backend, std::span<const float> from) const {
    on_host ? (void)std::ranges::copy(from, memory.begin()) : backend.write(from, memory);
  }
  void give_back() { values = std::vector<float>(); }  // assigning {} would keep the memory
  std::span<float> row(int rank) {
    return std::span(values).subspan(rows > 1 ? static_cast<std::size_t>(rank) * count() : 0, count());
  }
};

std::vector<Array> arrays_of(const SavedArrays& model, StateRows rows, int ranks);
/// Gathers the values that other ranks than the root have. The root keeps them until they are written. Collective.
void collect(Backend& backend, std::vector<Array>& arrays, Comm& team, Comm* sample_group);
/// Gives every rank its own of what the root has read. Collective.
void distribute(Backend& backend, std::vector<Array>& arrays, Comm& team);

}  // namespace mrmf::checkpoint
