// The project's only family of checks. A check is always on; it throws and never exits. Each error class is one exit
// code of the program (docs/guide/messages.md).
#pragma once

#include <stdexcept>
#include <string>

namespace mrmf {

/// Base of every error that mrmf itself raises. what() is one line: what, where, what to do.
class Error : public std::runtime_error {
 public:
  Error(const std::string& what, int exit_code) : std::runtime_error(what), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// The command line or the configuration asks for something impossible.
struct ConfigError : Error {
  static constexpr int kExitCode = 2;
  explicit ConfigError(const std::string& what) : Error(what, kExitCode) {}
};

/// A data file is missing, broken or not what the configuration says.
struct DataError : Error {
  static constexpr int kExitCode = 3;
  explicit DataError(const std::string& what) : Error(what, kExitCode) {}
};

/// Something went wrong while running: a rank, a device, a NaN.
struct FaultError : Error {
  static constexpr int kExitCode = 4;
  explicit FaultError(const std::string& what) : Error(what, kExitCode) {}
};

/// Throws FaultError("<file>:<line>: <expression> is false: <message>").
[[noreturn]] inline void check_failed(const char* file, int line, const char* expression, const std::string& message) {
  throw FaultError(std::string(file) + ":" + std::to_string(line) + ": " + expression + " is false: " + message);
}

}  // namespace mrmf

/// States a fact that the code relies on. Not for user input, which deserves a ConfigError or DataError.
#define MRMF_CHECK(condition, message)                                                 \
  do {                                                                                 \
    if (!(condition)) ::mrmf::check_failed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)
