// Opening files for reading.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "io/hdf5_lock.hpp"
#include "io/hdf5_state.hpp"
#include "io/input_file.hpp"
#include "mpi/agreement.hpp"

namespace mrmf {
namespace {

/// `reason` is taken at once: the library's next call clears its errors.
h5::File open_here(const std::string& path, std::string& reason) {
  const h5::Properties access = h5::file_access();
  h5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file) reason = h5::last_error();
  return file;
}

h5::File open_here(const std::string& path) {
  std::string reason;
  h5::File file = open_here(path, reason);
  if (!file) throw DataError(path + ": cannot be opened; " + reason);
  return file;
}

/// "truncated: ..." from the library's "truncated file: eof = A, sblock->base_addr = B, stored_eof = C"; else "".
std::string truncation(const std::string& reason) {
  const std::string eof = "eof = ", stored = "stored_eof = ";
  const std::size_t there = reason.find(eof), wanted = reason.find(stored);
  if (reason.find("truncated") == std::string::npos || wanted == std::string::npos) return "";
  return "truncated: " + std::to_string(std::stoull(reason.substr(there + eof.size()))) +
         " bytes are there, but its header says " + std::to_string(std::stoull(reason.substr(wanted + stored.size()))) +
         "; copy or make it again";
}

}  // namespace

void h5::check_readable(const std::string& path) {
  if (Descriptor(path).bytes() == 0) throw DataError(path + ": is empty (0 bytes); copy or make it again");
  if (H5Fis_hdf5(path.c_str()) <= 0)
    throw DataError(path + ": not an HDF5 file (the HDF5 signature is missing); convert it, or check the path");
  std::string reason;
  if (open_here(path, reason)) return;
  const std::string cut = truncation(reason);
  throw DataError(path + ": " + (cut.empty() ? "cannot be opened; " + reason : cut));
}

Hdf5File::State::~State() {
  const h5::Lock lock;
  file.close();
}

Hdf5File::Hdf5File(std::unique_ptr<State> state) : state_(std::move(state)) {}
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;
Hdf5File& Hdf5File::operator=(Hdf5File&&) noexcept = default;
Hdf5File::~Hdf5File() = default;

Hdf5File Hdf5File::open(const std::string& path, const Comm& comm) {
  const h5::Lock lock;
  h5::silence();
  Comm readers = comm.duplicate();
  together(readers, [&] {
    if (readers.root()) h5::check_readable(path);
  });
  h5::File file;
  together(readers, [&] { file = open_here(path); });
  return Hdf5File(std::make_unique<State>(path, std::move(file)));
}

}  // namespace mrmf
