// The arrays of a checkpoint: their names and shapes, and how the values that ranks have of their own come together in
// the root and go out again; in one file or, of ranks that share samples, in a file for each of their blocks. Private
// to src/run.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/tensor.hpp"
#include "mpi/comm.hpp"
#include "src/run/checkpoint.hpp"

namespace mrmf::checkpoint {

struct Array {
  std::string name;
  std::vector<Index> shape;
  Span memory;                              // the backend's, or
  bool on_host = false;                     // the host's
  const PartitionedWeights* cut = nullptr;  // the memory has this rank's part
  std::size_t rows = 1;                     // one per rank if ranks differ, or per worker
  bool pieces = false;                      // each rank has some of the values, and zeros for the others
  std::vector<Span> workers{};              // memory of this rank's workers; the rows of the first rank's come first
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

// Checkpoints of ranks that share samples: untied weights (and their moments) are not put together for them. Each rank
// of the first sample group writes those of its block to a file of its own beside the checkpoint,
// phase-<n>-save-<s>-block-<b>.h5, of the same form. The checkpoint itself, which the root writes last, lists them in
// its text /blocks (JSON): the number of the save, the checksum of each file, and which box of each array it has. So a
// checkpoint is there with all of its blocks, or the one before is. Any other grid reads what it needs of them.

/// An array's parts: so many values at each position, the positions of a box in each block's file.
struct ArrayBlocks {
  Extent positions{1, 1, 1};
  Index values = 1;
  std::vector<Box> boxes{};
  Index count() const { return product(positions) * values; }
};

/// A checkpoint's files of blocks; without arrays there are none.
struct Blocks {
  int save = 0;                          ///< differs from that of the checkpoint before
  std::vector<std::string> checksums{};  ///< by block
  std::map<std::string, ArrayBlocks> arrays{};
  bool empty() const { return arrays.empty(); }
};

/// The name of the data set with their text in a checkpoint.
inline constexpr const char* kBlocks = "blocks";
std::string to_json(const Blocks& blocks);  ///< "" for none
/// DataError, which begins with the checkpoint's name, for what is no such text.
Blocks blocks_from_json(const std::string& text, const std::string& checkpoint);

/// The arrays of a list that are in files of blocks; the others stay in it.
std::vector<Array> take_out(std::vector<Array>& arrays, const Blocks& blocks);

/// Writes the arrays of untied weights and takes them out of the list. Collective over the team. DataError, on all
/// ranks, when a file cannot be written; none of this save is left then.
Blocks write_blocks(Backend& backend, const std::string& checkpoint, std::vector<Array>& arrays, Comm* sample_group,
                    Comm& team);
/// Fills arrays with this rank's part. DataError, with the file, where one is missing, damaged or of another save.
void read_blocks(Backend& backend, const std::string& checkpoint, const Blocks& blocks,
                 const std::vector<Array>& arrays);
/// A box of an array: as many values as it has positions and values at each.
std::vector<float> read_box(const std::string& checkpoint, const Blocks& blocks, const std::string& array,
                            const Box& box);
/// Collective: the ranks share out the files, and each looks whether its own are whole. Errors as read_blocks()'s.
void verify_blocks(const std::string& checkpoint, const Blocks& blocks, Comm& comm);

/// Removes the files of blocks that belong to this checkpoint, but those of these saves. On one rank.
void remove_blocks(const std::string& checkpoint, const std::vector<int>& kept_saves);
/// Whether a file of this name is one of a block of the checkpoint of that name, or of any where that is empty; maybe
/// one that was not finished.
bool is_block_file(const std::string& name, const std::string& checkpoint = "");

}  // namespace mrmf::checkpoint
