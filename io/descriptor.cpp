#include "io/descriptor.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kernels/check.hpp"

namespace mrmf {

Descriptor::Descriptor(const std::string& path) : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (number_ >= 0) return;
  const int reason = errno;
  throw DataError(path + ": cannot be opened: " + std::strerror(reason) +
                  (reason == EMFILE ? "; raise `ulimit -n`, or use more ranks" : ""));
}

Descriptor::~Descriptor() { ::close(number_); }

}  // namespace mrmf
