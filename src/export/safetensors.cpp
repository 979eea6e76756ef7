#include "src/export/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

using SortedJson = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

constexpr std::uint64_t kMostHeader = 100'000'000;  // the format's own limit
constexpr std::size_t kMostAxes = 32;               // as many as HDF5 has; all are printed where they are wrong
constexpr const char* kMetadata = "__metadata__";

void read_at(const InputFile& file, const std::string& path, std::uint64_t offset, char* to, std::size_t count) {
  for (std::size_t done = 0; done < count;) {
    const ssize_t got = ::pread(file.number(), to + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw DataError(path + ": cannot be read" + (got < 0 ? std::string(": ") + std::strerror(errno) : "") +
                      "; copy it again, or restore it");
    done += static_cast<std::size_t>(got);
  }
}

}  // namespace

std::string shown(const std::string& name) {
  constexpr std::size_t most = 100;
  return SortedJson(name.size() > most ? name.substr(0, most) + "..." : name)
      .dump(-1, ' ', true, SortedJson::error_handler_t::replace);
}

namespace {

// The parser itself keeps the last of two members of one name.
SortedJson parse_header(const std::string& path, const std::string& header) {
  std::set<std::string> names;
  std::string twice;
  const auto watch = [&](int depth, SortedJson::parse_event_t event, SortedJson& value) {
    if (depth == 1 && event == SortedJson::parse_event_t::key && !names.insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  const SortedJson parsed = SortedJson::parse(header, watch, false);
  if (!twice.empty()) throw DataError(path + ": its header has the tensor " + shown(twice) + " twice");
  if (!parsed.is_object())
    throw DataError(path + ": its header is no JSON object; is it a safetensors file, and whole?");
  return parsed;
}

[[noreturn]] void refuse(const std::string& path, const std::string& name, const std::string& what) {
  throw DataError(fmt::format("{}: tensor {}: {}", path, shown(name), what));
}

std::vector<std::uint64_t> numbers(const SortedJson& entry, const std::string& key, const std::string& path,
                                   const std::string& name) {
  const auto found = entry.find(key);
  const bool list = found != entry.end() && found->is_array() &&
                    std::ranges::all_of(*found, [](const SortedJson& value) { return value.is_number_unsigned(); });
  if (!list) refuse(path, name, key + " is no list of whole numbers from 0 on");
  return found->get<std::vector<std::uint64_t>>();
}

SafetensorsEntry read_entry(const SortedJson& entry, const std::string& path, const std::string& name) {
  if (!entry.is_object()) refuse(path, name, "its entry in the header is no JSON object");
  const auto type = entry.find("dtype");
  if (type == entry.end() || !type->is_string()) refuse(path, name, "it has no dtype");
  if (*type != "F32")
    refuse(path, name,
           "its numbers are " + shown(type->get<std::string>()) + ", and F32 are read; convert them to float32");
  SafetensorsEntry tensor;
  Index count = 1;
  const std::vector<std::uint64_t> sizes = numbers(entry, "shape", path, name);
  if (sizes.size() > kMostAxes)
    refuse(path, name, fmt::format("it has {} axes, and at most {} are read", sizes.size(), kMostAxes));
  for (const std::uint64_t size : sizes) {
    tensor.shape.push_back(static_cast<Index>(std::min<std::uint64_t>(size, kMostElements + 1)));
    count = saturated_product(count, tensor.shape.back());
  }
  if (count > kMostElements) refuse(path, name, "its shape is larger than any file");
  const std::vector<std::uint64_t> offsets = numbers(entry, "data_offsets", path, name);
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    refuse(path, name, "data_offsets are not a first and a last byte");
  tensor.first = offsets[0], tensor.last = offsets[1];
  if (tensor.last - tensor.first != sizeof(float) * static_cast<std::uint64_t>(count))
    refuse(path, name,
           fmt::format("its shape {} takes {} bytes, and data_offsets give it {}", shape_text(tensor.shape),
                       sizeof(float) * static_cast<std::uint64_t>(count), tensor.last - tensor.first));
  return tensor;
}

// The tensors fill the rest of the file, each byte once.
void require_filled(const std::string& path, const std::map<std::string, SafetensorsEntry>& tensors,
                    std::uint64_t size) {
  std::vector<std::pair<SafetensorsEntry, std::string>> ordered;
  for (const auto& [name, entry] : tensors) {
    if (entry.last > size)
      refuse(path, name,
             fmt::format("its bytes end at {}, and the file has {} behind its header; is it cut short?", entry.last,
                         size));
    ordered.emplace_back(entry, name);
  }
  std::ranges::sort(ordered, {}, [](const auto& one) { return std::pair(one.first.first, one.first.last); });
  std::uint64_t end = 0;
  for (const auto& [entry, name] : ordered) {
    if (entry.first < end) refuse(path, name, "its bytes overlap those of another tensor");
    if (entry.first > end) refuse(path, name, fmt::format("there is a hole of {} bytes before it", entry.first - end));
    end = entry.last;
  }
  if (end != size) throw DataError(fmt::format("{}: {} bytes at its end belong to no tensor", path, size - end));
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path), file_(path) {
  const auto size = static_cast<std::uint64_t>(file_.bytes());
  std::uint64_t length = 0;
  if (size < sizeof(length)) throw DataError(path + ": fewer than 8 bytes; it is no safetensors file");
  read_at(file_, path, 0, reinterpret_cast<char*>(&length), sizeof(length));
  if (length > kMostHeader || length > size - sizeof(length))
    throw DataError(
        fmt::format("{}: its header would have {} bytes, and {}; it is no safetensors file, or cut short", path, length,
                    length > kMostHeader ? "100 MB are the most" : fmt::format("{} are there", size - sizeof(length))));
  std::string header(static_cast<std::size_t>(length), '\0');
  read_at(file_, path, sizeof(length), header.data(), header.size());
  data_ = sizeof(length) + length;
  read_header(header);
  require_filled(path_, tensors_, size - data_);
}

void SafetensorsFile::read_header(const std::string& header) {
  if (!header.starts_with('{')) throw DataError(path_ + ": its header is no JSON object; is it a safetensors file?");
  require_shallow_json(header, path_);
  const SortedJson parsed = parse_header(path_, header);
  for (const auto& [name, entry] : parsed.items()) {
    if (name != kMetadata) {
      tensors_.emplace(name, read_entry(entry, path_, name));
      continue;
    }
    const bool texts =
        entry.is_object() && std::ranges::all_of(entry, [](const SortedJson& text) { return text.is_string(); });
    if (!texts) throw DataError(path_ + ": __metadata__ of its header is no table of texts");
    for (const auto& [key, text] : entry.items()) metadata_.emplace(key, text.get<std::string>());
  }
}

std::string SafetensorsFile::metadata(const std::string& name) const {
  const auto found = metadata_.find(name);
  return found == metadata_.end() ? "" : found->second;
}

void SafetensorsFile::read(const std::string& name, Span values) const {
  const SafetensorsEntry& entry = tensors_.at(name);
  MRMF_CHECK(entry.last - entry.first == values.size_bytes(), "a tensor of another size than asked for");
  read_at(file_, path_, data_ + entry.first, reinterpret_cast<char*>(values.data()), values.size_bytes());
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    refuse(path_, name, "it holds NaN or an infinity, so no network can compute with it");
}

std::string safetensors_bytes(const std::vector<SafetensorsTensor>& parts,
                              const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  header[kMetadata] = metadata;
  std::uint64_t end = 0;
  for (const SafetensorsTensor& part : parts) {
    const std::uint64_t first = end;
    end += part.values.size_bytes();
    header[part.name] = {{"dtype", "F32"}, {"shape", part.shape}, {"data_offsets", {first, end}}};
  }
  std::string text = header.dump(-1, ' ', true);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the tensors begin at a multiple of 8
  const std::uint64_t length = text.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes.reserve(bytes.size() + text.size() + end);
  bytes += text;
  for (const SafetensorsTensor& part : parts)
    bytes.append(reinterpret_cast<const char*>(part.values.data()), part.values.size_bytes());
  return bytes;
}

}  // namespace mrmf
