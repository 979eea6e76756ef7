// Coarse copies of whole files.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "io/coarsen/coarsen.hpp"
#include "io/files/input_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/output.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "io/values/element_type.hpp"
#include "io/values/packing_units.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

constexpr Index block_bytes = Index{1} << 26;            // bytes of rows that a rank has in memory at once
constexpr Index kLookedAt = 16;                          // rows of a block, for digits that are lost
constexpr std::size_t most_told = std::size_t{1} << 14;  // bytes that an attribute says of data sets, of 64 KiB

/// A data set that is averaged, which is open only while its rows are read: each of many groups may have one. Channels
/// before the positions are averaged as so many samples of one channel, one after the other.
struct Samples {
  std::string name;
  std::vector<Index> shape;  ///< rows first
  ElementType type;
  bool may_miss, packed;  ///< attributes say what is missing; these or others say that it is packed
  Index per_row;          ///< such samples in a row
  Shape fine, coarse;     ///< shapes of one of them
};

std::string counted(Index count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// The axes of the data sets to average. ConfigError when they do not go with the rest of `copy`.
AxisOrder order_of(const CoarseCopy& copy) {
  if (copy.axis_names.empty()) return {copy.axes + 1, copy.axes};
  const AxisOrder order = parse_axes(copy.whole() ? axes_with_rows(copy.axis_names) : copy.axis_names, "--axes");
  const std::string given = "--axes \"" + copy.axis_names + "\"";
  if (const int positions = order.axes - (order.channel < 0 ? 0 : 1); positions != copy.axes)
    throw ConfigError(given + " names " + counted(positions, "position") + ", and --factor has " +
                      counted(copy.axes, "number") + "; give --factor a number per position");
  if (order.channel > 0 && order.moves())
    throw ConfigError(given + ": channels lie between positions; store the data set with them first or last, such as " +
                      "numpy.moveaxis(x, " + std::to_string(order.channel + 1) + ", -1)");
  if (order.axes == 1 && copy.samples.empty())
    throw ConfigError(given + " fits labels of shape (n, outputs), too; name the data sets to average with --samples");
  return order;
}

/// The shape of a data set without the axis that stands for its single row.
std::vector<Index> stored(std::vector<Index> shape, const CoarseCopy& copy) {
  if (copy.whole()) shape.erase(shape.begin());
  return shape;
}

/// The shape of the data set in the copy.
std::vector<Index> averaged(std::vector<Index> shape, const AxisOrder& order, const CoarseCopy& copy) {
  auto factor = copy.factor.end() - copy.axes;
  for (int axis = 0; axis < order.axes; ++axis)
    if (axis != order.channel) shape[static_cast<std::size_t>(axis + 1)] /= *factor++;
  return stored(std::move(shape), copy);
}

std::string list(const std::vector<Index>& values) {
  std::string text;
  for (const Index value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + "\"";
}

void require_samples(const std::string& path, const std::string& name, const std::vector<Index>& shape) {
  if (shape.empty() || std::find(shape.begin() + 1, shape.end(), 0) != shape.end())
    throw DataError(path + ": data set '" + name + "' has shape " + shape_text(shape) + ", which holds nothing");
}

/// Without names of the axes, channels that come first would be averaged, and positions taken for channels.
void refuse_channels_first(const std::string& path, const std::string& name, const std::vector<Index>& shape) {
  if (!looks_channels_first(sample_shape(shape))) return;
  const std::string names[] = {"x", "y x", "z y x"};
  const std::string& positions = names[shape.size() - 3];
  throw ConfigError(path + ": data set '" + name + "' of shape " + shape_text(shape) +
                    " looks channels first, and its last axis would be taken for channels; give --axes \"n c " +
                    positions + "\", or --axes \"n " + positions + " c\" if the last axis is of channels");
}

RowReader open_samples(const CoarseCopy& copy, const std::shared_ptr<const DataFile>& file, const std::string& name) {
  return {file, name, {.whole = copy.whole(), .packing = copy.packing}};
}

Samples inspect_samples(const CoarseCopy& copy, const AxisOrder& order, const RowReader& reader,
                        const std::string& name) {
  require_samples(copy.source, name, reader.shape());
  if (copy.axis_names.empty()) refuse_channels_first(copy.source, name, reader.shape());
  Shape fine = sample_shape(channels_last(reader.shape(), order, copy.source + ": data set '" + name + "'"));
  Shape coarse;
  try {
    coarse = coarse_shape(fine, copy.factor);
  } catch (const ConfigError& error) {
    throw ConfigError(copy.source + ": data set '" + name + "': " + error.what());
  }
  const Index per_row = order.moves() ? fine.channels : 1;
  if (order.moves()) fine.channels = coarse.channels = 1;
  const Packing& packing = reader.packing();
  return {name,    reader.shape(), reader.type(), packing.declared, packing.declared || packing.scaled(),
          per_row, fine,           coarse};
}

std::string provenance(const CoarseCopy& copy, const Hdf5File& source, const std::vector<Samples>& all) {
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(copy.source, unknown);
  std::ostringstream text;
  text << "{\"program\": " << quoted(copy.program)
       << ", \"source\": " << quoted(std::filesystem::path(copy.source).filename().string())
       << ", \"source_bytes\": " << bytes
       << ", \"factor\": " << list({copy.factor.end() - copy.axes, copy.factor.end()});
  if (!copy.axis_names.empty()) text << ", \"axes\": " << quoted(copy.axis_names);
  text << ", \"rounded\": " << (copy.type == ElementType::uint16 ? "true" : "false") << ", \"samples\": {";
  std::size_t told = 0;
  std::string samples;
  for (; told < all.size() && samples.size() < most_told; ++told)
    samples += (told == 0 ? "" : ", ") + quoted(all[told].name) +
               ": {\"source_shape\": " + list(stored(all[told].shape, copy)) +
               ", \"source_type\": " + quoted(to_string(all[told].type)) + "}";
  text << samples << "}";
  if (told < all.size()) text << ", \"further_samples\": " << (all.size() - told);
  if (const std::string before = source.read_attribute("coarsened"); !before.empty())
    text << ", \"source_coarsened\": " << before;
  text << "}";
  return text.str();
}

std::vector<std::uint16_t> rounded(ConstSpan means, const RowReader& reader, Index first, Index per_row) {
  std::vector<std::uint16_t> result(means.size());
  for (std::size_t i = 0; i < means.size(); ++i) {
    const float value = std::nearbyint(means[i]);
    if (!(value >= 0 && value <= 65535))
      throw DataError(reader.where() + ", row " + std::to_string(first + static_cast<Index>(i) / per_row) +
                      " has a mean of " + std::to_string(means[i]) + ", which uint16 cannot hold; use --type float32");
    result[i] = static_cast<std::uint16_t>(value);
  }
  return result;
}

/// This rank's rows of one data set.
void copy_rows(const CoarseCopy& copy, const Samples& samples, const RowReader& reader, Range rows,
               Hdf5Output& target) {
  const Index step = std::max<Index>(1, block_bytes / reader.row_bytes());
  const Index fine_width = samples.per_row * samples.fine.per_sample();  // elements of a row
  const Index width = samples.per_row * samples.coarse.per_sample();
  const Index lines = samples.per_row * samples.coarse.spatial[0] * samples.coarse.spatial[1];
  std::vector<std::byte> fine;
  std::vector<float> means;
  DigitSums digits(copy.type == ElementType::float32 ? samples.type : ElementType::float32, samples.per_row,
                   samples.fine);
  for (Index done = 0; done < rows.count; done += step) {
    const Range part{rows.first + done, std::min(step, rows.count - done)};
    fine.resize(static_cast<std::size_t>(part.count * reader.row_bytes()));
    reader.read(part.first, part.count, fine.data());
    const StoredSamples stored{samples.type, samples.fine, fine.data()};
    const Index elements = part.count * fine_width;
    const auto first_bad = samples.may_miss ? first_infinite : first_beyond_float32;
    if (const Index bad = first_bad(stored.type, fine.data(), elements); bad < elements) {
      const double value = number_at(stored.type, fine.data(), bad);
      const Index row = part.first + bad / fine_width;
      throw DataError(copy.source + ": data set '" + samples.name + "', row " + std::to_string(row) + " holds " +
                      not_finite_reason(value) +
                      (std::isfinite(value)
                           ? "; store the numbers in other units, or their logarithm"
                           : ", of which there is no mean; remove or repair that sample, give the data set the "
                             "attribute _FillValue = NaN if NaN says that a number is missing, or train on the "
                             "original at this factor with data.not_finite = \"skip\""));
    }
    for (Index row = 0; row < part.count; row += std::max<Index>(1, part.count / kLookedAt))
      digits.add_row(fine.data() + row * reader.row_bytes(), reader.packing().whole());
    means.resize(static_cast<std::size_t>(part.count * width));
#pragma omp parallel for schedule(static)
    for (Index line = 0; line < part.count * lines; ++line)
      coarsen_lines(stored, copy.factor, {line, 1}, means.data() + line * (width / lines));
    if (copy.type == ElementType::uint16)
      target.write_rows(samples.name, part.first, rounded(means, reader, part.first, width));
    else
      target.write_rows(samples.name, part.first, means);
  }
  if (const std::string lost = digits.lost_text("copies are written"); !lost.empty())
    throw DataError(copy.source + ": data set '" + samples.name + "' " + lost);
}

/// What is copied, as every rank sees it.
struct Contents {
  FileNames names;
  std::vector<Samples> samples;
  std::vector<CoarseScale> scales;
  std::vector<std::string> others;
  AttributesLeftOut left_out;
};

/// What is averaged is neither packed any more, nor classes.
void leave_out_of_averages(Contents& contents) {
  const auto add = [&](const std::string& name, const std::vector<std::string>& attributes) {
    std::ranges::copy(attributes, std::back_inserter(contents.left_out[name]));
  };
  for (const CoarseScale& scale : contents.scales) add(scale.name, h5::packing_attributes());
  for (const Samples& samples : contents.samples) {
    if (samples.packed) add(samples.name, h5::packing_attributes());
    add(samples.name, h5::flag_attributes());
  }
}

Contents contents_of(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source,
                     const std::shared_ptr<const DataFile>& file, CoarseFile& made) {
  Contents found;
  found.names = names_to_copy(copy);
  made.samples = samples_to_average(copy, order, source, found.names, found.others);
  find_classes(copy, order, source, made.samples, found.others).tell(made.notes);
  std::map<std::string, std::vector<std::string>> not_applied;  // which samples have the same to say
  for (const std::string& name : made.samples) {
    const RowReader reader = open_samples(copy, file, name);
    if (const std::string& text = reader.packing().not_applied; !text.empty()) not_applied[text].push_back(name);
    if (copy.missing == MissingRule::refuse) reader.require_written();
    found.samples.push_back(inspect_samples(copy, order, reader, name));
    made.count += reader.shape().front();
  }
  for (const auto& [text, names] : not_applied)
    made.notes.push_back("'" + names.front() + "'" +
                         (names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : "") + ": " + text);
  found.scales = averaged_scales(copy, order, source, found.names, made, found.others);
  found.left_out = untied(copy, order, source, found.names, found.scales, made, found.others);
  leave_out_of_averages(found);
  return found;
}

/// Some at a time, which are open together.
void require_same_samples(const CoarseCopy& copy, const std::vector<std::string>& names, Comm& world) {
  constexpr std::size_t most = 64;
  for (std::size_t first = 0; first < names.size(); first += most) {
    const auto begin = names.begin() + static_cast<std::ptrdiff_t>(first);
    DatasetSpec some;
    some.files = {copy.source};
    some.missing = MissingRule::fill;
    some.packing = copy.packing;
    some.name_samples({begin, begin + static_cast<std::ptrdiff_t>(std::min(most, names.size() - first))});
    require_same_data(some, nullptr, world);
  }
}

/// This rank's rows of all data sets.
void copy_samples(const CoarseCopy& copy, const std::vector<Samples>& all, const std::shared_ptr<const DataFile>& file,
                  const Comm& world, Hdf5Output& target) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    Range rows = piece(all[i].shape.front(), world.rank(), world.size());
    if (copy.whole()) rows = {0, static_cast<int>(i) % world.size() == world.rank() ? 1 : 0};
    if (rows.count > 0) copy_rows(copy, all[i], open_samples(copy, file, all[i].name), rows, target);
  }
}

/// Data sets by the attributes that their copies do not get, so that the source is opened once for those alike.
std::map<std::vector<std::string>, std::vector<std::string>> by_left_out(const std::vector<std::string>& names,
                                                                         const AttributesLeftOut& left_out) {
  std::map<std::vector<std::string>, std::vector<std::string>> alike;
  for (const std::string& name : names) {
    const auto found = left_out.find(name);
    alike[found == left_out.end() ? std::vector<std::string>{} : found->second].push_back(name);
  }
  return alike;
}

/// All that is copied as it is, and the attributes of all that is averaged.
void copy_others(const CoarseCopy& copy, const Contents& contents, Hdf5Output& target) {
  for (const auto& [left_out, names] : by_left_out(contents.others, contents.left_out))
    target.copy_datasets(copy.source, names, left_out);
  target.copy_attributes(copy.source, {"/"});
  std::vector<std::string> averaged;
  for (const CoarseScale& scale : contents.scales) averaged.push_back(scale.name);
  for (const Samples& samples : contents.samples) {
    averaged.push_back(samples.name);
    if (samples.may_miss && copy.type == ElementType::float32) target.mark_missing(samples.name);
  }
  for (const auto& [left_out, names] : by_left_out(averaged, contents.left_out))
    target.copy_attributes(copy.source, names, left_out);
}

/// Samples that are beside each other: data sets of one name in files, or in groups of one group.
class Siblings {
 public:
  /// DataError where one is unlike the first of its name.
  void add(const CoarseCopy& copy, const Samples& samples, const std::string& units) {
    const std::string where = copy.rows == RowsBy::groups ? copy.source + "/" + group_of(samples.name) : copy.source;
    Shape sample = samples.fine;
    sample.channels *= samples.per_row;
    const auto [known, fresh] = first_.try_emplace(copy.rows == RowsBy::groups ? key_of(samples.name) : samples.name,
                                                   First{where, sample, units, where});
    First& first = known->second;
    const std::string what = copy.source + ": data set '" + samples.name + "'";
    if (sample != first.sample)
      refuse_unlike(what, "samples of " + to_string(sample), first.where, to_string(first.sample));
    if (units.empty()) return;
    if (first.units.empty()) first.units = units, first.with_units = where;
    if (same_units(units, first.units)) return;
    const auto [here, there, remedy] = units_difference(units, first.units);
    refuse_unlike(what, here, first.with_units, there, remedy);
  }

 private:
  struct First {
    std::string where;
    Shape sample;
    std::string units, with_units;  // the units that the first array with any has, and where it is
  };
  static std::string group_of(const std::string& name) { return name.substr(0, name.rfind('/')); }
  /// The name without that of its group.
  static std::string key_of(const std::string& name) {
    const std::string group = group_of(name);
    const std::size_t above = group.rfind('/');
    return (above == std::string::npos ? "" : group.substr(0, above + 1)) + name.substr(group.size());
  }
  std::map<std::string, First> first_;
};

}  // namespace

void require_copies(CoarseCopy copy, const std::vector<std::string>& sources) {
  Siblings siblings;
  std::vector<std::string> first;  // names of what is averaged in the first file
  for (const std::string& path : sources) {
    copy.source = path;
    const AxisOrder order = order_of(copy);
    const Hdf5File source = Hdf5File::open(path, Comm::self(), copy.packing);
    const auto file = std::make_shared<const DataFile>(path);
    CoarseFile unmade;
    const bool other = std::ranges::none_of(first, [&](const std::string& name) { return source.has(name); });
    if (copy.rows == RowsBy::files && !first.empty() && other) source.info(first.front());  // which says what is there
    for (const Samples& samples : contents_of(copy, order, source, file, unmade).samples)
      if (copy.whole()) siblings.add(copy, samples, open_samples(copy, file, samples.name).units());
    if (first.empty()) first = unmade.samples;
  }
}

CoarseFile coarse_copy(const CoarseCopy& copy, Comm& world) {
  const AxisOrder order = order_of(copy);
  const Hdf5File source = Hdf5File::open(copy.source, world, copy.packing);
  std::shared_ptr<const DataFile> file;
  Contents contents;
  CoarseFile made;
  collective_try(world, [&] {
    file = std::make_shared<const DataFile>(copy.source);
    contents = contents_of(copy, order, source, file, made);
  });
  require_same_samples(copy, made.samples, world);
  Hdf5Output target(copy.target, copy.replace, world);
  for (const Samples& samples : contents.samples)
    target.create_dataset(samples.name, averaged(samples.shape, order, copy), copy.type);
  for (const CoarseScale& scale : contents.scales)
    target.create_dataset(scale.name, {std::ssize(scale.means)}, ElementType::float64);
  target.write_attribute("coarsened", provenance(copy, source, contents.samples));
  collective_try(world, [&] {
    copy_samples(copy, contents.samples, file, world, target);
    for (const CoarseScale& scale : contents.scales)
      if (world.root()) target.write_rows(scale.name, 0, std::as_bytes(std::span(scale.means)));
  });
  copy_others(copy, contents, target);
  target.copy_names(copy.source, contents.names);
  for (const std::string& text : target.left_out()) made.notes.push_back("not in the copy: " + text);
  made.file = target.finish();
  // The root's answer counts: on network file systems, other ranks may not see the new file yet.
  collective_try(world, [&] {
    if (made.file) made.bytes = static_cast<Index>(std::filesystem::file_size(made.file->path()));
  });
  world.broadcast(std::span(&made.bytes, 1), 0);
  return made;
}

}  // namespace mrmf
