// A program that is run for one member, as a child process.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

namespace mrmf {

struct ChildCall {
  std::vector<std::string> words;                                  ///< the program, by path, and its arguments
  std::string folder;                                              ///< its working folder; "": ours
  std::string log;                                                 ///< file for what it prints, by a path of ours
  std::vector<std::pair<std::string, std::string>> environment{};  ///< set in addition
  /// Where it may make, change and remove files, beside its working folder; elsewhere the system refuses it
  /// (Landlock), where the kernel can. Only if `confined`.
  std::vector<std::string> writable{};
  bool confined = false;
};

struct ChildEnd {
  int code = 0;          ///< its exit code; of one that a signal ended, 128 + the signal's number
  bool stopped = false;  ///< it was told to stop, because we are
};

/// Runs a program to its end. It does not outlive this process, nor what it started outlive it; it reads nothing, gets
/// nothing of MPI's environment, and SIGTERM when `stop` becomes true. FaultError when it cannot be started, DataError
/// when its log cannot be written.
ChildEnd run_child(const ChildCall& call, const std::atomic<bool>& stop);

/// The last line of a log that is not blank, of at most 300 characters; "" without one.
std::string last_line(const std::string& log);

}  // namespace mrmf
