#include "src/ensemble/ensemble.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "generated/version.hpp"
#include "io/hdf5/output.hpp"
#include "io/rows/sample_order.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "src/config/toml.hpp"
#include "src/ensemble/spec_and_design.hpp"

namespace mrmf {
namespace {

using Json = nlohmann::ordered_json;

constexpr Index kBlockBytes = Index{1} << 26;
constexpr std::uint64_t kValidationStream = 0x76616C6964;
constexpr int kMoments = 4;  // mean, deviation, least, most
constexpr std::array kOwnNames{"labels", "parameters", "summaries", "member", "split", "meta.JSON"};

/// Which members have rows, and what lies beside them.
struct Rows {
  std::vector<Index> members;
  std::vector<bool> validates;
  std::vector<MemberArray> parts;
  Index channels = 0;  // channels of the first part; 0: it has no numbers to sum up

  Rows(const EnsembleSpec& spec, const Members& all) : parts(row_arrays_of(spec)) {
    for (std::size_t m = 0; m < all.states.size(); ++m)
      if (all.states[m].done) members.push_back(static_cast<Index>(m));
    validates = validation_members(members, spec.validation, spec.seed);
    const MemberArray& first = parts.front();
    if (first.type == ElementType::float32 || first.type == ElementType::uint16)
      channels = first.shape.size() > 1 ? first.shape.back() : 1;
  }
  Index count() const { return static_cast<Index>(members.size()); }
};

void create(Hdf5Output& file, const EnsembleSpec& spec, const Rows& rows) {
  const Index n = rows.count();
  const auto keys = static_cast<Index>(spec.design.axes.size());
  for (const MemberArray& part : rows.parts) {
    std::vector<Index> shape{n};
    shape.insert(shape.end(), part.shape.begin(), part.shape.end());
    file.create_dataset(part.name, shape, part.type);
  }
  file.create_dataset("labels", {n, keys});
  file.create_dataset("parameters", {n, keys}, ElementType::float64);
  if (rows.channels > 0) file.create_dataset("summaries", {n, kMoments * rows.channels});
  file.create_dataset("member", {n}, ElementType::uint32);
  file.create_dataset("split", {n}, ElementType::uint8);
}

template <class T>
void add_summary(const std::byte* row, Index numbers, Index channels, std::vector<float>& to) {
  const T* values = reinterpret_cast<const T*>(row);
  for (Index c = 0; c < channels; ++c) {
    double sum = 0, squares = 0, least = 1e300, most = -1e300, count = 0;
    for (Index i = c; i < numbers; i += channels, ++count) {
      const auto x = static_cast<double>(values[i]);
      sum += x, squares += x * x, least = std::min(least, x), most = std::max(most, x);
    }
    const double mean = sum / count;
    for (const double x : {mean, std::sqrt(std::max(squares / count - mean * mean, 0.0)), least, most})
      to.push_back(static_cast<float>(x));
  }
}

/// Copies blocks of rows into the file, and checks them on the way.
class Copier {
 public:
  Copier(const EnsembleSpec& spec, const std::vector<Point>& points, const Members& members, const Rows& rows)
      : spec_(spec), points_(points), members_(members), rows_(rows), row_bytes_(bytes_of(rows.parts)) {
    for (const std::string& folder : members.folders) {
      std::error_code none;
      const std::string path = folder + kRowsName;
      files_.push_back(std::filesystem::exists(path, none)
                           ? std::make_unique<RowFile>(path, static_cast<std::uint64_t>(row_bytes_))
                           : nullptr);
    }
  }

  Index most() const { return std::max<Index>(1, kBlockBytes / std::max<Index>(1, row_bytes_)); }

  /// Marks the rows that are damaged.
  void copy(Hdf5Output& file, const Range& block, std::span<std::int64_t> damaged) {
    const auto count = static_cast<std::size_t>(block.count), width = static_cast<std::size_t>(row_bytes_);
    read_.resize(count * width);
    for (std::size_t i = 0; i < count; ++i)
      if (!read_row(block.first + static_cast<Index>(i), std::span(read_).subspan(i * width, width)))
        damaged[static_cast<std::size_t>(block.first) + i] = 1;
    std::size_t offset = 0;
    for (const MemberArray& part : rows_.parts) {
      const auto bytes = static_cast<std::size_t>(part.bytes());
      part_.resize(count * bytes);
      for (std::size_t i = 0; i < count; ++i)
        std::memcpy(part_.data() + i * bytes, read_.data() + i * width + offset, bytes);
      file.write_rows(part.name, block.first, std::span<const std::byte>(part_));
      offset += bytes;
    }
    write_keys(file, block);
    write_summaries(file, block);
  }

 private:
  bool read_row(Index row, std::span<std::byte> to) const {
    const Index member = rows_.members[static_cast<std::size_t>(row)];
    const MemberState& state = members_.states[static_cast<std::size_t>(member)];
    const auto& file = files_[state.folder_index];
    return file && file->read(static_cast<std::uint64_t>(member), to) && row_checksum(to) == state.row;
  }

  void write_keys(Hdf5Output& file, const Range& block) const {
    std::vector<float> labels;
    std::vector<double> values;
    std::vector<std::uint32_t> numbers;
    std::vector<std::byte> split;
    for (Index row = block.first; row < block.first + block.count; ++row) {
      const Index member = rows_.members[static_cast<std::size_t>(row)];
      const Point& point = points_[static_cast<std::size_t>(member)];
      for (std::size_t k = 0; k < point.size(); ++k) {
        labels.push_back(static_cast<float>(2 * share_of(spec_.design.axes[k], point[k]) - 1));
        values.push_back(point[k]);
      }
      numbers.push_back(static_cast<std::uint32_t>(member));
      split.push_back(rows_.validates[static_cast<std::size_t>(row)] ? std::byte{1} : std::byte{0});
    }
    file.write_rows("labels", block.first, ConstSpan(labels));
    file.write_rows("parameters", block.first, std::as_bytes(std::span(values)));
    file.write_rows("member", block.first, std::span<const std::uint32_t>(numbers));
    file.write_rows("split", block.first, std::span<const std::byte>(split));
  }

  void write_summaries(Hdf5Output& file, const Range& block) const {
    if (rows_.channels == 0) return;
    const MemberArray& part = rows_.parts.front();
    std::vector<float> summaries;
    for (Index i = 0; i < block.count; ++i) {
      const std::byte* row = read_.data() + i * row_bytes_;
      if (part.type == ElementType::uint16)
        add_summary<std::uint16_t>(row, part.numbers(), rows_.channels, summaries);
      else
        add_summary<float>(row, part.numbers(), rows_.channels, summaries);
    }
    file.write_rows("summaries", block.first, ConstSpan(summaries));
  }

  const EnsembleSpec& spec_;
  const std::vector<Point>& points_;
  const Members& members_;
  const Rows& rows_;
  Index row_bytes_;
  std::vector<std::unique_ptr<RowFile>> files_;
  std::vector<std::byte> read_, part_;
};

std::string metadata(const EnsembleSpec& spec, const Members& members, const Rows& rows) {
  Json meta;
  meta["program"] = std::string("mrmf ") + kVersion + " (" + kGitHash + ")";
  meta["members"] = members.states.size();
  meta["rows"] = rows.members.size();
  for (const Axis& axis : spec.design.axes) {
    Json key{{"key", axis.key}, {"from", axis.from}, {"to", axis.to}, {"scale", axis.logarithmic ? "log" : "linear"}};
    if (!axis.values.empty()) key["values"] = axis.values;
    meta["keys"].push_back(std::move(key));
  }
  Json failed = Json::array();
  for (std::size_t m = 0; m < members.states.size(); ++m)
    if (!members.states[m].done) failed.push_back(m);
  meta["membersWithoutRow"] = failed;
  meta["summaries"] = {"mean", "deviation", "least", "most"};
  meta["spec"] = identity(spec);
  return meta.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::vector<bool> validation_members(const std::vector<Index>& members, double share, std::uint64_t seed) {
  std::vector<double> drawn;
  for (const Index member : members)
    drawn.push_back(Rng(mix(seed, static_cast<std::uint64_t>(member), kValidationStream)).uniform());
  std::vector<bool> chosen;
  for (const double x : drawn) chosen.push_back(x < share);
  if (members.size() < 2 || share <= 0) return chosen;
  const auto validating = std::ranges::count(chosen, true);
  if (validating == 0) chosen[static_cast<std::size_t>(std::ranges::min_element(drawn) - drawn.begin())] = true;
  if (validating == std::ssize(chosen))
    chosen[static_cast<std::size_t>(std::ranges::max_element(drawn) - drawn.begin())] = false;
  return chosen;
}

std::vector<MemberArray> row_arrays_of(const EnsembleSpec& spec) {
  const std::atomic<bool> never{false};
  std::vector<MemberArray> parts = make_members(spec, {spec.folder, never})->parts();
  for (const MemberArray& part : parts)
    if (std::ranges::find(kOwnNames, part.name) != kOwnNames.end())
      throw ConfigError(
          fmt::format("{}: command.collect: '{}' is a name of the ensemble's own; write that data set under another",
                      spec.origin, part.name));
  return parts;
}

std::vector<Index> collect(const EnsembleSpec& spec, const std::vector<Point>& points, const Members& members,
                           Comm& world) {
  const Rows rows(spec, members);
  if (rows.count() == 0) return {};
  std::vector<std::int64_t> damaged(rows.members.size());
  Hdf5Output file(spec.folder + "/data.h5", Replace::file, world);
  create(file, spec, rows);
  collective_try(world, [&] {
    Copier copier(spec, points, members, rows);
    const Range own = piece(rows.count(), world.rank(), world.size());
    for (Index done = 0; done < own.count; done += copier.most())
      copier.copy(file, {own.first + done, std::min(copier.most(), own.count - done)}, damaged);
  });
  world.sum(std::span(damaged));
  std::vector<Index> found;
  for (std::size_t row = 0; row < damaged.size(); ++row)
    if (damaged[row] != 0) found.push_back(rows.members[row]);
  if (!found.empty()) return found;
  file.write_text("meta.JSON", metadata(spec, members, rows));
  file.commit();
  collective_try(world, [&] {
    if (world.root()) write_file(spec.folder + "/data.toml", data_section(spec), Replace::file);
  });
  return {};
}

std::string members_csv(const EnsembleSpec& spec, const std::vector<Point>& points, const Members& members) {
  std::string text = "member,status,tries,seconds";
  for (const Axis& axis : spec.design.axes) text += "," + csv_cell(axis.key);
  std::unique_ptr<RowFile> results;
  if (spec.train) {
    for (const char* name : kTrainingResults) text += std::string(",") + name;
  }
  text += ",reason\n";
  for (std::size_t m = 0; m < members.states.size(); ++m) {
    const MemberState& state = members.states[m];
    text += fmt::format("{},{},{},{:.6g}", m,
                        state.done           ? "done"
                        : state.attempts > 0 ? "failed"
                                             : "waiting",
                        state.attempts, state.seconds);
    for (std::size_t k = 0; k < points[m].size(); ++k) text += "," + csv_cell(spec.design.axes[k].text(points[m][k]));
    if (spec.train) {
      std::array<double, std::size(kTrainingResults)> row{};
      const std::string path = members.folders[state.folder_index] + kRowsName;
      const bool read = state.done && RowFile(path, sizeof row).read(m, std::as_writable_bytes(std::span(row)));
      for (const double number : row) text += read ? fmt::format(",{}", number) : ",";
    }
    text += "," + csv_cell(state.done ? "" : state.reason) + "\n";
  }
  return text;
}

std::string data_section(const EnsembleSpec& spec) {
  return fmt::format(
      "[data]\nfiles = [{}]\ntrain = {{ samples = {}, labels = \"labels\" }}\nsplit = {{ column = \"split\" }}\n",
      mrmf::quoted(spec.folder + "/data.h5"), mrmf::quoted(row_arrays_of(spec).front().name));
}

}  // namespace mrmf
