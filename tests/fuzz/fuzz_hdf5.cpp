// Data files of any structure that HDF5's own functions can write: inspecting and reading them is a DataError or gives
// as many rows as it said. Not of damaged bytes: HDF5 1.10 itself reads from bad addresses in some of those.
#include <fuzzer/FuzzedDataProvider.h>
#include <hdf5.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/rows/sample_reader.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"
#include "mpi/environment.hpp"

namespace {

std::unique_ptr<mrmf::MpiEnvironment> session;
std::string path;

hid_t type_of(FuzzedDataProvider& from) {
  const std::array<hid_t, 12> types{H5T_IEEE_F32LE, H5T_IEEE_F64LE,  H5T_STD_I16LE, H5T_STD_U16LE,
                                    H5T_IEEE_F32BE, H5T_STD_U8LE,    H5T_STD_I32LE, H5T_STD_U64LE,
                                    H5T_C_S1,       H5T_STD_REF_OBJ, H5T_STD_B16LE, H5T_UNIX_D32LE};
  const hid_t type = H5Tcopy(types.at(from.ConsumeIntegralInRange<std::size_t>(0, types.size() - 1)));
  if (from.ConsumeBool()) return type;
  if (H5Tget_class(type) == H5T_FLOAT) {  // of any width and bias
    H5Tset_fields(type, 15, 10, 5, 0, 10);
    H5Tset_size(type, from.ConsumeIntegralInRange<std::size_t>(2, 8));
    H5Tset_ebias(type, from.ConsumeIntegralInRange<std::size_t>(0, 31));
  } else if (H5Tget_class(type) == H5T_INTEGER) {
    H5Tset_precision(type, from.ConsumeIntegralInRange<std::size_t>(1, 16));
  }
  return type;
}

// A size that is small, or near where 32 or 64 bits end.
hsize_t size_of(FuzzedDataProvider& from) {
  if (from.ConsumeIntegralInRange(0, 3) != 0) return from.ConsumeIntegralInRange<hsize_t>(0, 12);
  return (hsize_t{1} << from.ConsumeIntegralInRange(1, 63)) + from.ConsumeIntegralInRange<hsize_t>(0, 4) - 2;
}

void write_dataset(FuzzedDataProvider& from, hid_t file, const char* name, bool samples) {
  std::vector<hsize_t> sizes(from.ConsumeIntegralInRange<std::size_t>(samples ? 2 : 1, samples ? 6 : 3)), most, chunk;
  hsize_t elements = 1;
  for (hsize_t& size : sizes) {
    size = size_of(from);
    if (__builtin_mul_overflow(elements, size, &elements)) elements = ~hsize_t{0};
    most.push_back(from.ConsumeBool() ? H5S_UNLIMITED : size);
    chunk.push_back(from.ConsumeIntegralInRange<hsize_t>(1, 9));
  }
  const int rank = static_cast<int>(sizes.size());
  const bool chunked = from.ConsumeBool() || elements > 4096;
  const hid_t space = from.ConsumeIntegralInRange(0, 15) == 0
                          ? H5Screate(from.ConsumeBool() ? H5S_NULL : H5S_SCALAR)
                          : H5Screate_simple(rank, sizes.data(), chunked ? most.data() : nullptr);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE), type = type_of(from);
  if (chunked) {
    H5Pset_chunk(creation, rank, chunk.data());
    if (from.ConsumeBool()) H5Pset_shuffle(creation);
    if (from.ConsumeBool()) H5Pset_deflate(creation, 1);
    if (from.ConsumeBool()) H5Pset_fletcher32(creation);
  }
  // One of them at most: HDF5 1.10 crashes as it makes a compact data set in another file.
  int storage = from.ConsumeIntegralInRange(0, 7);
  if (chunked && storage != 3) storage = 0;
  if (storage == 1) H5Pset_layout(creation, H5D_COMPACT);
  if (storage == 2) H5Pset_external(creation, "nowhere.bin", 0, H5F_UNLIMITED);
  if (storage == 3)
    H5Pset_virtual(creation, space, from.ConsumeBool() ? "." : "nowhere.h5", from.ConsumeBool() ? name : "labels",
                   space);
  const hid_t data = H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  // Into no other file, and not through a virtual one: it may be its own source, and HDF5 would write to it for ever.
  if (data >= 0 && storage < 2 && elements <= 4096 && H5Tget_size(type) <= 16 && from.ConsumeBool()) {
    const std::vector<char> values(static_cast<std::size_t>(elements) * 16 + 16, from.ConsumeIntegral<char>());
    H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }
  if (data >= 0) H5Dclose(data);
  H5Tclose(type);
  H5Pclose(creation);
  H5Sclose(space);
}

void write_name(FuzzedDataProvider& from, hid_t file, const char* name, bool samples) {
  switch (from.ConsumeIntegralInRange(0, 9)) {
    case 0: H5Lcreate_soft(from.ConsumeBool() ? name : "samples", file, name, H5P_DEFAULT, H5P_DEFAULT); break;
    case 1:
      H5Lcreate_external(from.ConsumeBool() ? path.c_str() : "nowhere.h5", name, file, name, H5P_DEFAULT, H5P_DEFAULT);
      break;
    case 2: {
      const hid_t group = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      if (group >= 0) H5Gclose(group);
      break;
    }
    default: write_dataset(from, file, name, samples);
  }
}

void write(FuzzedDataProvider& from) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  if (from.ConsumeBool()) H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  write_name(from, file, "samples", true);
  write_name(from, file, "labels", false);
  H5Fclose(file);
  H5Pclose(access);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  session = std::make_unique<mrmf::MpiEnvironment>(*argc, *argv);
  path = "/tmp/mrmf-fuzz-" + std::to_string(getpid()) + ".h5";
  std::atexit([] {
    std::remove(path.c_str());
    session.reset();
  });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider from(data, size);
  write(from);
  mrmf::Comm world = mrmf::Comm::world();
  try {
    const mrmf::DatasetSpec spec{{path}, "samples", "labels", mrmf::SampleLayout::as_stored};
    (void)mrmf::inspect_dataset(spec, world);
  } catch (const mrmf::DataError&) {
  } catch (const mrmf::ConfigError&) {
  }
  return 0;
}
