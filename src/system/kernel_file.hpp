// The user's file of the CPU's fastest kernels, so that they are timed once on each machine.
#pragma once

#include <map>
#include <string>

#include "kernels/cpu/kernel_choice.hpp"

namespace mrmf {

/// What choices hold for: the processor, its instruction set, and the versions of this program and of oneDNN.
std::string kernel_machine(const Backend& backend);

/// The choices that earlier runs made, by machine. The file has a checksum. On one rank.
class KernelFile {
 public:
  /// Reads the file if there is one. An empty path: none, and nothing is kept.
  explicit KernelFile(std::string path);

  /// Why the file is not used; empty when it is, or when there is none yet.
  const std::string& ignored() const { return ignored_; }
  /// Adds what was chosen on this machine.
  void fill(cpu::KernelChoices& choices, const std::string& machine) const;
  /// Keeps them. Several runs may do so at the same time: the last one's stay. Returns why it could not; else nothing.
  std::string keep(const cpu::KernelChoices& choices, const std::string& machine);

 private:
  void read();

  std::string path_, ignored_;
  bool may_replace_ = true;
  std::map<std::string, std::string> by_machine_;  // KernelChoices::text()
};

}  // namespace mrmf
