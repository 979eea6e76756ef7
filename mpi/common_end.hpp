// How a program of many ranks ends: together, with one exit code, and one line about what went wrong.
#pragma once

#include <memory>
#include <optional>

namespace mrmf {

/// The ranks' agreement about their end. One per process, in main: made after MpiEnvironment, gone before it.
///
/// An error that every rank has, such as one in the configuration, is no reason for MPI_Abort, which ends ranks before
/// they have spoken and prints pages of its own: the ranks find out that all of them have come to their end, one of
/// them speaks, and MPI is finalised as usual. Only ranks that wait in vain for the others abort.
class CommonEnd {
 public:
  /// Collective over the world.
  CommonEnd();
  ~CommonEnd();
  CommonEnd(const CommonEnd&) = delete;
  CommonEnd& operator=(const CommonEnd&) = delete;

  /// How the command has ended on this rank.
  struct Mine {
    int exit_code = 0;    ///< 0 to 255
    bool failed = false;  ///< by an error, of which a line is to be said
  };
  /// How it has ended on all ranks together.
  struct Common {
    int exit_code =
        0;            ///< exit code of the lowest rank that failed; of another that does not end with 0, if none failed
    int failed = -1;  ///< the lowest rank that failed; -1: none
  };
  /// Collective. Returns when every rank has called it. A rank that failed gives up after `kLimit` seconds: the others
  /// are elsewhere, perhaps in a call in which they wait for this rank. It must then end all of them. It gives up at
  /// once where messages of this rank are still under way, whose memory may be gone.
  std::optional<Common> agree(const Mine& mine) const;

  /// How long a rank that failed waits for the others. On a busy machine they come seconds after each other.
  static constexpr double kLimit = 5;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mrmf
