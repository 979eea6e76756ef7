#include "src/run/recorded_data.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/files/limits.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"
#include "src/run/records.hpp"

namespace mrmf {
namespace {

using SortedJson = nlohmann::json;

// Which rows the sums are of, and how they are made. Records by another rule cannot be compared.
constexpr int kRule = 2;

std::string time_text(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(seconds)));
}

std::string more_text(std::size_t count) { return count > 1 ? fmt::format(", and {} more", count - 1) : ""; }

// "written 2026-11-26 09:41:26, and 2026-11-25 18:00:02 then"
std::string times_text(const RecordedData& was, const RecordedData& is, std::size_t file) {
  const std::int64_t then = was.record.modified[file], now = is.record.modified[file];
  return then == now ? fmt::format("written {}, as then", time_text(now))
                     : fmt::format("written {}, and {} then", time_text(now), time_text(then));
}

}  // namespace

DataRecord record_data(const DataConfig& data, Comm& world) {
  std::string text;
  collective_try_on_root(world, [&] { text = to_json(record_of(used_files(data.train, data.validation))); });
  world.broadcast(text, 0);
  return data_record_from_json(text, "data.files");
}

std::string to_json(const DataRecord& record) {
  SortedJson arrays = SortedJson::array();
  for (const ArrayRecord& array : record.arrays)
    arrays.push_back({{"file", array.file},
                      {"name", array.name},
                      {"shape", array.shape},
                      {"type", array.type},
                      {"sum", fmt::format("{:016x}", array.sum)}});
  return SortedJson{{"rule", kRule}, {"bytes", record.bytes}, {"modified", record.modified}, {"arrays", arrays}}.dump();
}

DataRecord data_record_from_json(const std::string& text, const std::string& origin) try {
  require_shallow_json(text, origin);
  const SortedJson json = SortedJson::parse(text);
  DataRecord record;
  if (json.at("rule") != kRule) return record;
  for (const SortedJson& bytes : json.at("bytes")) record.bytes.push_back(whole_number<Index>(bytes));
  for (const SortedJson& time : json.at("modified")) record.modified.push_back(whole_number<std::int64_t>(time));
  if (record.bytes.size() != record.modified.size())
    throw std::runtime_error("sizes and times are not of as many files");
  for (const SortedJson& array : json.at("arrays")) {
    std::vector<Index> shape;
    for (const SortedJson& size : array.at("shape")) shape.push_back(whole_number<Index>(size));
    record.arrays.push_back({whole_number<Index>(array.at("file")), array.at("name"), std::move(shape),
                             std::stoull(array.at("sum").get<std::string>(), nullptr, 16), array.at("type")});
    if (record.arrays.back().file < 0 || record.arrays.back().file >= std::ssize(record.bytes))
      throw std::runtime_error("a sum is of no file");
  }
  return record;
} catch (const Error&) {
  throw;
} catch (const std::exception& error) {
  throw DataError(fmt::format("{}: what is recorded of the data is not readable ({})", origin, error.what()));
}

bool comparable(const RecordedData& was, const RecordedData& is) {
  return was.files.size() == is.files.size() && was.record.bytes.size() == was.files.size() &&
         is.record.bytes.size() == is.files.size();
}

std::string changed_numbers(const RecordedData& was, const RecordedData& is) {
  std::string first;
  std::size_t count = 0;
  for (const ArrayRecord& now : is.record.arrays) {
    const auto then = std::ranges::find_if(
        was.record.arrays, [&](const ArrayRecord& array) { return array.file == now.file && array.name == now.name; });
    if (then == was.record.arrays.end() || then->same_contents(now) || ++count > 1) continue;
    const std::string types = then->type == now.type ? "" : fmt::format("{} now, {} then; ", now.type, then->type);
    const auto file = static_cast<std::size_t>(now.file);
    first = fmt::format("data set '{}' of {} {} ({}{})", now.name, is.files[file].path,
                        then->shape == now.shape
                            ? "holds other numbers"
                            : fmt::format("has shape {}, and had {}", shape_text(now.shape), shape_text(then->shape)),
                        types, times_text(was, is, file));
  }
  return first + more_text(count);
}

std::string touched_files(const RecordedData& was, const RecordedData& is) {
  std::string first;
  std::size_t count = 0;
  for (std::size_t i = 0; i < is.files.size(); ++i) {
    const std::string &then = was.files[i].path, &now = is.files[i].path;
    const bool resized = was.record.bytes[i] != is.record.bytes[i];
    if ((then == now && !resized && was.record.modified[i] == is.record.modified[i]) || ++count > 1) continue;
    const std::string size =
        resized ? fmt::format(", {} bytes, and {} then", is.record.bytes[i], was.record.bytes[i]) : "";
    first = fmt::format("{}{} ({}{})", now, then == now ? "" : " in place of " + then, times_text(was, is, i), size);
  }
  return first + more_text(count);
}

}  // namespace mrmf
