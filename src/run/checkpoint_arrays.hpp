// The arrays of a checkpoint: their names and shapes, and how the values that ranks have of their own come together in
// the root and go out again. Private to src/run.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "io/hdf5/file.hpp"
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
  void make_room() { values.resize(count()); }
  /// Whether this rank's memory has all of it.
  bool plain() const { return cut == nullptr && rows == 1 && !pieces && workers.empty(); }
  // Values of this rank's memory, from the one with the number `first` on.
  void read(Backend& backend, std::span<float> to, std::size_t first = 0) const {
    const Span part = memory.subspan(first, to.size());
    on_host ? (void)std::ranges::copy(part, to.begin()) : backend.read(part, to);
  }
  void write(Backend& backend, std::span<const float> from, std::size_t first = 0) const {
    const Span part = memory.subspan(first, from.size());
    on_host ? (void)std::ranges::copy(from, part.begin()) : backend.write(from, part);
  }
  void give_back() { values = std::vector<float>(); }  // assigning {} would keep the memory
};

std::vector<Array> arrays_of(const SavedArrays& model, StateRows rows, int ranks);
/// Writes an array to a file that the root has open, with what other ranks have of it. Collective.
void save_array(Backend& backend, Hdf5Output* file, Array& array, Comm& team, Comm* sample_group);
/// Writes an array of this shape: its values where they are on the host, else this rank's memory part by part.
void write_array(Backend& backend, Hdf5Output& file, Array& array, const std::vector<Index>& shape);
/// Gives every rank its own of what the root reads from the file, which only the root has open. Collective.
void distribute(Backend& backend, const Hdf5File* file, Array& array, Comm& team);

}  // namespace mrmf::checkpoint
