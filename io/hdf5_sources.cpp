#include "io/hdf5_sources.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace mrmf::h5 {
namespace {

namespace fs = std::filesystem;

template <typename Get>
std::string text_of(Get get) {
  const ssize_t length = get(nullptr, 0);
  std::string text(static_cast<std::size_t>(std::max<ssize_t>(length, 0)), '\0');
  if (length > 0) get(text.data(), text.size() + 1);
  return text;
}

/// printf's way with "%b" and "%%", as the library has it.
std::string numbered_text(const std::string& text, hsize_t number) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '%' && i + 1 < text.size() ? text[i + 1] : '\0';
    if (next == 'b')
      result += std::to_string(number);
    else
      result += text[i];
    if (next == 'b' || next == '%') ++i;
  }
  return result;
}

bool has_number(const std::string& text) {
  for (std::size_t i = 0; i + 1 < text.size(); ++i)
    if (text[i] == '%') {
      if (text[i + 1] == 'b') return true;
      ++i;
    }
  return false;
}

}  // namespace

bool is_regular(const std::string& path) {
  std::error_code unknown;
  const fs::file_status facts = fs::status(path, unknown);
  if (fs::is_regular_file(facts)) return true;
  if (unknown || !fs::exists(facts)) return false;
  throw DataError(path + ": is " + (fs::is_directory(facts) ? "a folder" : "a FIFO, a socket or a device") +
                  ", not a file, and data comes from it");
}

bool SourceName::numbered() const { return has_number(file) || has_number(dataset); }

SourceName SourceName::with_number(hsize_t number) const {
  return {numbered_text(file, number), numbered_text(dataset, number)};
}

SourceName source_name(const Properties& creation, std::size_t i) {
  SourceName name;
  name.file = text_of([&](char* to, std::size_t size) { return H5Pget_virtual_filename(creation.get(), i, to, size); });
  name.dataset =
      text_of([&](char* to, std::size_t size) { return H5Pget_virtual_dsetname(creation.get(), i, to, size); });
  return name.numbered() ? name : name.with_number(0);
}

std::vector<std::string> places_of(const std::string& path, const std::string& name, const char* variable) {
  std::vector<std::string> places;
  fs::path file = name;
  if (file.is_absolute()) {
    places.push_back(name);
    file = file.filename();
  }
  std::error_code unknown;
  if (const char* const folders = std::getenv(variable)) {
    std::istringstream words(folders);
    for (std::string folder; std::getline(words, folder, ':');)
      if (!folder.empty()) places.push_back((fs::path(folder) / file).string());
  }
  places.push_back((fs::absolute(path, unknown).parent_path() / file).string());
  places.push_back(file.string());
  places.push_back((fs::canonical(path, unknown).parent_path() / file).string());
  return places;
}

OpenSource open_source(const std::string& path, const std::string& name) {
  const std::vector<std::string> places = name == "." ? std::vector{path} : places_of(path, name, "HDF5_VDS_PREFIX");
  for (const std::string& place : places) {
    if (!is_regular(place)) continue;
    const Properties access = file_access();
    if (File file(H5Fopen(place.c_str(), H5F_ACC_RDONLY, access.get())); file) return {std::move(file), place};
  }
  return {};
}

}  // namespace mrmf::h5
