// Memory of the host for backends: their own, and some that other processes of the same user can map.
#pragma once

#include <memory>
#include <vector>

#include "kernels/backend.hpp"

namespace mrmf::cpu {

/// Zeroed, 64-byte aligned floats; in huge pages where there are many.
Arena make_arena(Index count);

/// Memory that operations of a backend need only while they run. These run one after another, so they can share it: it
/// stays in the caches from layer to layer, and is as large as the operation wants that wants most. What an operation
/// leaves there, any other may overwrite.
class Workspace {
 public:
  explicit Workspace(int threads) : of_threads_(static_cast<std::size_t>(threads)) {}
  /// Takes memory: so many floats for all threads together, and for each of them. Not while an operation runs.
  void reserve(Index common, Index of_thread);
  int threads() const { return static_cast<int>(of_threads_.size()); }
  float* common() { return common_.span().data(); }  ///< at the beginning of a line of the caches, as the others
  /// For the thread itself.
  float* of_thread(int thread) { return of_thread(thread, 0, {}); }
  /// The same with what was left there, if whoever used it last named the same form of its contents; else with so many
  /// zeros.
  float* of_thread(int thread, Index floats, const std::vector<Index>& form);

 private:
  struct OfThread {
    Arena memory;
    std::vector<Index> form;
  };
  Arena common_;
  std::vector<OfThread> of_threads_;
};
using SharedWorkspace = std::shared_ptr<Workspace>;
/// Rounded up to whole lines of the caches.
constexpr Index whole_lines(Index floats) { return (floats + 15) / 16 * 16; }

/// Whether so much is written here that nothing of it is still in the caches when it is read: kernels then write past
/// them, which saves reading every line first. False also where lines of 64 bytes do not begin at the first value.
bool exceeds_caches(ConstSpan values);
/// The same of a tensor that is written in whole lines of 64 bytes: one that is no slice, of 16 channels or a multiple.
bool streams(const Tensor& written);

/// Zeroed floats in a file that is in no file system, with a name that no other has: "mrmf" and random numbers. Only
/// readers of /proc/PID/fd find it. It ends with the arena and its mappings. Where the system makes no such file, or
/// has no room for it, memory of the backend without one.
Arena allocate_shared(Backend& backend, Index count);

}  // namespace mrmf::cpu
