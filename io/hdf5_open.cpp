// Opening, creating and closing files.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

#include "io/agreement.hpp"
#include "io/descriptor.hpp"
#include "io/hdf5_lock.hpp"
#include "io/hdf5_state.hpp"

namespace mrmf {
namespace {

/// Opens with POSIX calls on this rank alone. `reason` is taken at once: the library's next call clears its errors.
h5::File open_here(const std::string& path, unsigned mode, std::string& reason) {
  const h5::Properties access = mode == H5F_ACC_RDWR ? h5::write_access() : h5::file_access();
  h5::File file(H5Fopen(path.c_str(), mode, access.get()));
  if (!file) reason = h5::last_error();
  return file;
}

h5::File open_here(const std::string& path, unsigned mode) {
  std::string reason;
  h5::File file = open_here(path, mode, reason);
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

/// Makes an empty file, so that an unwritable place gets one clear message before several ranks turn to MPI-IO.
void check_creatable(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    const std::string reason = std::strerror(errno);
    throw DataError(path + ": cannot be created: " + reason + "; check its folder and the rights on it");
  }
  ::close(descriptor);
}

/// Adds a (1,) variable-length string to a file of one rank.
void write_string(hid_t file, const std::string& name, const std::string& text, const std::string& path) {
  const h5::Properties links(H5Pcreate(H5P_LINK_CREATE)), creation(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_create_intermediate_group(links.get(), 1);
  H5Pset_obj_track_times(creation.get(), false);
  const h5::Type type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  const hsize_t one = 1;
  const h5::Space space(H5Screate_simple(1, &one, nullptr));
  const h5::Dataset dataset(
      H5Dcreate2(file, name.c_str(), type.get(), space.get(), links.get(), creation.get(), H5P_DEFAULT));
  const char* pointer = text.c_str();
  h5::require(dataset && H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &pointer) >= 0,
              path + ": data set '" + name + "' cannot be written");
}

void write_texts(const std::string& path, const std::vector<std::pair<std::string, std::string>>& texts) {
  h5::File file = open_here(path, H5F_ACC_RDWR);
  for (const auto& [name, text] : texts) write_string(file.get(), name, text, path);
  h5::require(file.close(), path + ": cannot be closed");
}

}  // namespace

void h5::check_readable(const std::string& path) {
  if (Descriptor(path).bytes() == 0) throw DataError(path + ": is empty (0 bytes); copy or make it again");
  if (H5Fis_hdf5(path.c_str()) <= 0)
    throw DataError(path + ": not an HDF5 file (the HDF5 signature is missing); convert it, or check the path");
  std::string reason;
  if (open_here(path, H5F_ACC_RDONLY, reason)) return;
  const std::string cut = truncation(reason);
  throw DataError(path + ": " + (cut.empty() ? "cannot be opened; " + reason : cut));
}

Hdf5File::State::~State() {
  if (!file) return;
  const h5::Lock lock;
  if (comm && comm->size() > 1 && std::uncaught_exceptions() > 0) {
    // Closing is collective, and the ranks that did not fail are elsewhere: waiting for them would hide the error.
    file.release();
    return;
  }
  try {
    close();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): close() is there for those who want to know
  }
}

void Hdf5File::State::close() {
  if (!file) return;
  const h5::Lock lock;
  if (!comm) {
    file.close();
    return;
  }
  together(*comm, [&] { h5::require(file.close(), path + ": cannot be closed"); });
  // Variable-length strings cannot be written through MPI-IO in HDF5 1.10: the root adds them when all else is there.
  if (!texts.empty())
    together(*comm, [&] {
      if (comm->root()) write_texts(path, texts);
    });
}

Comm& Hdf5File::State::writers() {
  MRMF_CHECK(comm.has_value() && file, path + " is not open for writing");
  return *comm;
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
  together(readers, [&] { file = open_here(path, H5F_ACC_RDONLY); });
  return Hdf5File(std::make_unique<State>(path, std::move(file)));
}

Hdf5File Hdf5File::create(const std::string& path, const Comm& comm) {
  const h5::Lock lock;
  h5::silence();
  Comm writers = comm.duplicate();
  together(writers, [&] {
    if (writers.root()) check_creatable(path);
  });
  h5::File file;
  together(writers, [&] {
    const h5::Properties access = h5::write_access(), creation(H5Pcreate(H5P_FILE_CREATE));
    // One rank needs no MPI-IO. Without mpirun, Open MPI keeps its files in a folder that all such programs of a user
    // share and the first to end removes: one that is just opening a file then fails, hours of training behind it.
    if (writers.size() > 1)
      H5Pset_fapl_mpio(access.get(), *static_cast<const MPI_Comm*>(writers.handle()), MPI_INFO_NULL);
    H5Pset_obj_track_times(creation.get(), false);
    file = h5::File(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
    h5::require(bool(file), path + ": cannot be created");
  });
  return Hdf5File(std::make_unique<State>(path, std::move(file), std::move(writers)));
}

Hdf5File Hdf5File::create_in_memory(const std::string& name, std::size_t size) {
  constexpr std::size_t least = std::size_t{1} << 16;
  const h5::Lock lock;
  h5::silence();
  const h5::Properties access = h5::write_access(), creation(H5Pcreate(H5P_FILE_CREATE));
  H5Pset_fapl_core(access.get(), std::max(size, least), false);
  H5Pset_obj_track_times(creation.get(), false);
  h5::File file(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
  h5::require(bool(file), name + ": cannot be made in memory");
  return Hdf5File(std::make_unique<State>(name, std::move(file), Comm::self()));
}

std::string Hdf5File::image() {
  const h5::Lock lock;
  const hid_t file = state_->file.get();
  for (const auto& [name, text] : state_->texts) write_string(file, name, text, state_->path);
  state_->texts.clear();
  const bool flushed = H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0;
  const auto size = flushed ? H5Fget_file_image(file, nullptr, 0) : -1;
  h5::require(size > 0, state_->path + ": cannot be made in memory");
  constexpr std::size_t behind = 64;  // for a checksum: adding it must not copy all
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(size) + behind);
  bytes.resize(static_cast<std::size_t>(size));
  h5::require(H5Fget_file_image(file, bytes.data(), bytes.size()) == size, state_->path + ": cannot be made in memory");
  return bytes;
}

void Hdf5File::close() { state_->close(); }

}  // namespace mrmf
