// A file opened for reading with the operating system's own calls.
#pragma once

#include <string>

namespace mrmf {

class Descriptor {
 public:
  /// DataError when the file cannot be opened.
  explicit Descriptor(const std::string& path);
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace mrmf
