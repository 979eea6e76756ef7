// Parallel builds of HDF5 keep one state per process and no lock of their own.
#pragma once

#include <mutex>

namespace mrmf::h5 {

/// Held around every use of the library, because data is read ahead on threads. The same thread may take it again.
/// Collective calls are made under it: a thread that waits for it never holds up another rank.
class Lock {
 public:
  Lock() : held_(mutex()) {}

 private:
  /// The library's state is the process's, and so is its lock.
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex one;
    return one;
  }
  std::scoped_lock<std::recursive_mutex> held_;
};

}  // namespace mrmf::h5
