#include "tests/emulated/failure.hpp"

#include <cstdio>
#include <cstdlib>

namespace mrmf::emulated {

LastError& last_error() {
  thread_local LastError error;
  return error;
}

void report(const char* library, const std::string& text) {
  if (std::getenv("MRMF_EMULATED_VERBOSE")) std::fprintf(stderr, "emulated %s: %s\n", library, text.c_str());
}

cudaError_t remember(const Failure& failure) {
  LastError& error = last_error();
  error = {failure.code, failure.code, failure.what()};
  report("CUDA", error.text);
  return failure.code;
}

}  // namespace mrmf::emulated
