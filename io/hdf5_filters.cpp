#include "io/hdf5_filters.hpp"

#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace mrmf::h5 {
namespace {

struct Filter {
  H5Z_filter_t number = 0;
  std::string name;  ///< as the file has it; may be empty
};

/// Names come from the file: letters of the first line, and not many.
std::string name_text(std::string_view stored) {
  constexpr std::size_t most = 60;
  std::string name;
  for (const char c : stored.substr(0, stored.find(';'))) {
    if (std::isprint(static_cast<unsigned char>(c)) == 0 || name.size() == most) break;
    name += c;
  }
  return name;
}

Filter filter_at(const Properties& creation, unsigned i) {
  unsigned flags = 0, settings = 0;
  std::size_t values = 0;
  std::array<char, 256> name{};
  Filter filter;
  filter.number = H5Pget_filter2(creation.get(), i, &flags, &values, nullptr, name.size(), name.data(), &settings);
  name.back() = '\0';
  filter.name = name_text(name.data());
  return filter;
}

/// Which filters the first chunk did not go through, as bits; all, where there is no chunk.
unsigned passed_by(const Dataset& dataset, const Properties& creation) {
  const Space all(H5Dget_space(dataset.get()));
  hsize_t count = 0, bytes = 0;
  if (H5Pget_layout(creation.get()) != H5D_CHUNKED || H5Dget_num_chunks(dataset.get(), all.get(), &count) < 0 ||
      count == 0)
    return ~0U;
  std::vector<hsize_t> first(H5S_MAX_RANK);
  unsigned mask = ~0U;
  haddr_t address = 0;
  return H5Dget_chunk_info(dataset.get(), all.get(), 0, first.data(), &mask, &address, &bytes) < 0 ? 0U : mask;
}

std::string advice() {
  const char* const folders = std::getenv("HDF5_PLUGIN_PATH");
  const std::string where = folders == nullptr || *folders == '\0' ? "" : " (which is " + std::string(folders) + ")";
  return "put its plugin into a folder and name that in HDF5_PLUGIN_PATH" + where +
         " (Python's hdf5plugin has many, in hdf5plugin.PLUGIN_PATH), or write the data set anew, with gzip or without";
}

}  // namespace

std::optional<std::string> missing_filter(const Dataset& dataset, bool used) {
  const Properties creation(H5Dget_create_plist(dataset.get()));
  const int filters = H5Pget_nfilters(creation.get());
  for (int i = 0; i < filters; ++i) {
    const Filter filter = filter_at(creation, static_cast<unsigned>(i));
    if (filter.number < 0 || H5Zfilter_avail(filter.number) > 0) continue;
    if (used && (passed_by(dataset, creation) >> i & 1U) != 0) continue;
    return "is packed by filter " + std::to_string(filter.number) +
           (filter.name.empty() ? "" : " (" + filter.name + ")") + ", which HDF5 does not find here; " + advice();
  }
  return {};
}

void require_filters(const Dataset& dataset, const std::string& what) {
  if (const auto missing = missing_filter(dataset, true)) throw DataError(what + " " + *missing);
}

}  // namespace mrmf::h5
