// One temporary folder for all ranks.
#pragma once

#include <memory>
#include <string>

#include "mpi/comm.hpp"
#include "tests/support/data_files.hpp"

namespace mrmf::test {

/// Made and removed by the root; its destructor waits for all ranks, so that nothing is removed under their hands.
class SharedFolder {
 public:
  explicit SharedFolder(Comm& comm) : comm_(comm.duplicate()) {
    if (comm_.root()) {
      folder_ = std::make_unique<TemporaryFolder>();
      path_ = folder_->path();
    }
    comm_.broadcast(path_, 0);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  ~SharedFolder() { comm_.barrier(); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  Comm comm_;
  std::unique_ptr<TemporaryFolder> folder_;
  std::string path_;
};

}  // namespace mrmf::test
