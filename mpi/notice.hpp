// A word that one rank has for another, which need not stop to hear it.
#pragma once

#include <memory>

#include "mpi/comm.hpp"

namespace mrmf {

/// Between two ranks, each of which makes one and sends once. Move-only.
class Notice {
 public:
  /// To and from rank `other` of `comm`, which outlives this.
  Notice(const Comm& comm, int other);
  Notice(Notice&&) noexcept;
  Notice& operator=(Notice&&) noexcept;
  /// Leaves behind what has not arrived: only an error's way out may do that.
  ~Notice();

  void send();
  bool arrived();  ///< has the other one sent?
  /// Sends unless that was done, and returns when both notices have arrived.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mrmf
