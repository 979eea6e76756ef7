#include "io/coarsen.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "io/axis_order.hpp"
#include "io/channels_first.hpp"
#include "io/coarse_scales.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_names.hpp"
#include "io/hdf5_output.hpp"
#include "io/limits.hpp"
#include "io/row_reader.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

/// Geometry of one sample, in elements.
struct BlockGeometry {
  Extent factor, out;
  Index channels, row, plane;  ///< fine elements from one row and plane to the next
};

/// The mean of what is there of the block that begins at `block`; NaN where nothing is.
template <typename Element>
float mean_of_present(const Element* block, const BlockGeometry& blocks) {
  double sum = 0;
  Index count = 0;
  for (Index d = 0; d < blocks.factor[0]; ++d)
    for (Index h = 0; h < blocks.factor[1]; ++h)
      for (Index w = 0; w < blocks.factor[2]; ++w) {
        const auto value =
            static_cast<double>(to_float(block[d * blocks.plane + h * blocks.row + w * blocks.channels]));
        if (std::isnan(value)) continue;
        sum += value;
        ++count;
      }
  return count > 0 ? static_cast<float>(sum / static_cast<double>(count)) : std::numeric_limits<float>::quiet_NaN();
}

/// One coarse row. Adds up the fine rows in `sums`, one whole row after another, so that the loop is long and
/// vectorises; then adds neighbours along the row.
template <typename Element>
void coarsen_row(const Element* fine, const BlockGeometry& blocks, std::vector<double>& sums, float* coarse) {
  std::fill(sums.begin(), sums.end(), 0.0);
  for (Index d = 0; d < blocks.factor[0]; ++d)
    for (Index h = 0; h < blocks.factor[1]; ++h) {
      const Element* row = fine + d * blocks.plane + h * blocks.row;
#pragma omp simd
      for (Index i = 0; i < blocks.row; ++i) sums[static_cast<std::size_t>(i)] += static_cast<double>(to_float(row[i]));
    }
  const double scale = 1.0 / static_cast<double>(product(blocks.factor));
  for (Index w = 0; w < blocks.out[2]; ++w)
    for (Index c = 0; c < blocks.channels; ++c) {
      const double* first = sums.data() + w * blocks.factor[2] * blocks.channels + c;
      double sum = 0;
      for (Index k = 0; k < blocks.factor[2]; ++k) sum += first[k * blocks.channels];
      float& mean = coarse[w * blocks.channels + c];
      mean = static_cast<float>(sum * scale);
      if (std::isnan(mean)) mean = mean_of_present(fine + w * blocks.factor[2] * blocks.channels + c, blocks);
    }
}

}  // namespace

Shape coarse_shape(const Shape& sample, const Extent& factor, const std::string& what) {
  Shape result = sample;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const Index size = sample.spatial[axis];
    if (factor[axis] < 1 || size % factor[axis] != 0)
      throw ConfigError("resolution " + std::to_string(factor[axis]) + " does not divide an axis of " +
                        std::to_string(size) + " (" + what + " are " + to_string(sample) + "); use a divisor of " +
                        std::to_string(size));
    result.spatial[axis] = size / factor[axis];
  }
  return result;
}

void coarsen_lines(const StoredSamples& fine, const Extent& factor, Range lines, float* coarse) {
  const Shape small = coarse_shape(fine.sample, factor);
  const Index row = fine.sample.spatial[2] * fine.sample.channels;
  const BlockGeometry blocks{factor, small.spatial, fine.sample.channels, row, fine.sample.spatial[1] * row};
  const Index per_sample = small.spatial[0] * small.spatial[1];
  std::vector<double> sums(static_cast<std::size_t>(row));
  with_elements(fine.type, fine.data, [&](const auto* from) {
    for (Index i = lines.first; i < lines.first + lines.count; ++i) {
      const Index n = i / per_sample, d = i % per_sample / small.spatial[1], h = i % small.spatial[1];
      const Index at = n * fine.sample.per_sample() + d * factor[0] * blocks.plane + h * factor[1] * row;
      coarsen_row(from + at, blocks, sums, coarse + (i - lines.first) * small.spatial[2] * small.channels);
    }
  });
}

namespace {

constexpr Index block_bytes = Index{1} << 26;  // of rows that a rank has in memory at once

/// A data set that is being averaged. Channels before the positions are averaged as so many samples of one channel, one
/// after the other.
struct Samples {
  std::string name;
  RowReader reader;
  Index per_row;       ///< such samples in a row
  Shape fine, coarse;  ///< of one of them
};

std::string counted(Index count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// Whether a data set is one sample.
bool is_whole(const CoarseCopy& copy) { return copy.rows != RowForm::axis; }

/// The axes of the data sets to average. ConfigError when they do not go with the rest of `copy`.
AxisOrder order_of(const CoarseCopy& copy) {
  if (copy.axis_names.empty()) return {copy.axes + 1, copy.axes};
  const AxisOrder order = parse_axes(is_whole(copy) ? axes_with_rows(copy.axis_names) : copy.axis_names, "--axes");
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
  if (is_whole(copy)) shape.erase(shape.begin());
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

/// Integers of other sizes than a detector's 16 bits may well be classes, whose means mean nothing.
bool may_be_classes(ElementType type) {
  return type != ElementType::float16 && type != ElementType::int16 && type != ElementType::uint16 &&
         type != ElementType::float32 && type != ElementType::float64;
}

/// The data sets asked for have as many axes.
void require_axes(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source) {
  if (copy.rows == RowForm::groups) return;  // they are names within the groups
  const Index counted_axes = is_whole(copy) ? 0 : 1;
  for (const std::string& name : copy.samples) {
    const auto axes = std::ssize(source.info(name).shape);  // throws when there is no such data set
    if (axes == order.axes + counted_axes) continue;
    if (copy.axis_names.empty())
      throw ConfigError(copy.source + ": the samples of '" + name + "' have " +
                        std::to_string(axes - 1 - counted_axes) + " axes; give --factor as many numbers");
    throw ConfigError(copy.source + ": data set '" + name + "' has " + std::to_string(axes) + " axes, and --axes \"" +
                      copy.axis_names + "\" names " + std::to_string(order.axes + counted_axes) +
                      "; name every axis of the data set");
  }
}

std::string none_fits(const CoarseCopy& copy, const AxisOrder& order) {
  if (!copy.axis_names.empty())
    return "no data set has " + std::to_string(order.axes + 1) + " axes, as --axes \"" + copy.axis_names +
           "\" names; name every axis of the data sets to average";
  return "no data set has samples of " + std::to_string(copy.axes) + (copy.axes == 1 ? " axis" : " axes") +
         " and channels; give --factor a number per axis, and --axes if there is no axis of channels";
}

/// The data sets to average: those asked for, or those with the right number of axes. `others` gets the rest.
std::vector<std::string> choose(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source,
                                const FileNames& names, std::vector<std::string>& others) {
  std::vector<std::string> chosen;
  std::string unreadable;
  require_axes(copy, order, source);
  std::set<std::string> asked;  // by their first names
  for (const std::string& name : copy.samples)
    if (copy.rows != RowForm::groups) asked.insert(first_name(names, copy.source, name));
  const auto is_asked = [&](const std::string& name) {
    if (copy.rows != RowForm::groups) return asked.contains(name);
    return std::ranges::any_of(copy.samples, [&](const std::string& one) { return name.ends_with("/" + one); });
  };
  for (const std::string& name : names.datasets) {
    const DatasetInfo info = source.info(name);
    const bool shaped = std::ssize(info.shape) == order.axes + (is_whole(copy) ? 0 : 1) && !info.scale;
    const bool fits = shaped && !may_be_classes(info.whole ? info.stored : info.type);
    if (shaped && !fits) unreadable = name;
    const bool wanted = copy.samples.empty() ? fits : shaped && is_asked(name);
    (wanted ? chosen : others).push_back(name);
  }
  if (chosen.empty() && !unreadable.empty() && source.info(unreadable).type != ElementType::other)
    throw ConfigError(copy.source + ": the samples of '" + unreadable + "' are " + source.info(unreadable).type_name +
                      " elements, which may be classes; if they are to be averaged, name them with --samples");
  if (chosen.empty() && !unreadable.empty())
    throw ConfigError(copy.source + ": the samples of '" + unreadable + "' are " + source.info(unreadable).type_name +
                      " elements; " + readable_types());
  if (chosen.empty()) throw ConfigError(copy.source + ": " + none_fits(copy, order));
  return chosen;
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

Samples open_samples(const CoarseCopy& copy, const AxisOrder& order, const std::string& name) {
  RowReader reader(copy.source, name, {.whole = is_whole(copy), .packing = copy.packing});
  require_samples(copy.source, name, reader.shape());
  if (copy.axis_names.empty()) refuse_channels_first(copy.source, name, reader.shape());
  Shape fine = sample_shape(channels_last(reader.shape(), order, copy.source + ": data set '" + name + "'"));
  Shape coarse = coarse_shape(fine, copy.factor);
  const Index per_row = order.moves() ? fine.channels : 1;
  if (order.moves()) fine.channels = coarse.channels = 1;
  return {name, std::move(reader), per_row, fine, coarse};
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
  for (std::size_t i = 0; i < all.size(); ++i)
    text << (i == 0 ? "" : ", ") << quoted(all[i].name)
         << ": {\"source_shape\": " << list(stored(all[i].reader.shape(), copy))
         << ", \"source_type\": " << quoted(to_string(all[i].reader.type())) << "}";
  text << "}";
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
void copy_rows(const CoarseCopy& copy, const Samples& samples, Range rows, Hdf5Output& target) {
  const Index step = std::max<Index>(1, block_bytes / samples.reader.row_bytes());
  const Index fine_width = samples.per_row * samples.fine.per_sample();  // elements of a row
  const Index width = samples.per_row * samples.coarse.per_sample();
  const Index lines = samples.per_row * samples.coarse.spatial[0] * samples.coarse.spatial[1];
  std::vector<std::byte> fine;
  std::vector<float> means;
  for (Index done = 0; done < rows.count; done += step) {
    const Range part{rows.first + done, std::min(step, rows.count - done)};
    fine.resize(static_cast<std::size_t>(part.count * samples.reader.row_bytes()));
    samples.reader.read(part.first, part.count, fine.data());
    const StoredSamples stored{samples.reader.type(), samples.fine, fine.data()};
    const Index elements = part.count * fine_width;
    const auto first_bad = samples.reader.packing().declared ? first_infinite : first_beyond_float32;
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
    means.resize(static_cast<std::size_t>(part.count * width));
#pragma omp parallel for schedule(static)
    for (Index line = 0; line < part.count * lines; ++line)
      coarsen_lines(stored, copy.factor, {line, 1}, means.data() + line * (width / lines));
    if (copy.type == ElementType::uint16)
      target.write_rows(samples.name, part.first, rounded(means, samples.reader, part.first, width));
    else
      target.write_rows(samples.name, part.first, means);
  }
}

}  // namespace

CoarseFile coarse_copy(const CoarseCopy& copy, Comm& world) {
  const AxisOrder order = order_of(copy);
  const Hdf5File source = Hdf5File::open(copy.source, world, copy.packing);
  FileNames file_names;
  std::vector<std::string> others;
  std::vector<Samples> all;
  std::vector<CoarseScale> scales;
  CoarseFile made;
  collective_try(world, [&] {
    file_names = names_of(copy.source);
    made.samples = choose(copy, order, source, file_names, others);
    if (copy.missing == MissingRule::refuse)
      for (const std::string& name : made.samples) source.require_written(name);
    for (const std::string& name : made.samples) {
      all.push_back(open_samples(copy, order, name));
      made.count += all.back().reader.shape().front();
    }
    scales = averaged_scales(copy, order, source, made, others);
  });
  for (const std::string& name : made.samples)
    require_same_data({.files = {copy.source}, .samples = name, .labels = "", .packing = copy.packing}, nullptr, world);
  Hdf5Output target(copy.target, copy.replace, world);
  for (const Samples& samples : all)
    target.create_dataset(samples.name, averaged(samples.reader.shape(), order, copy), copy.type);
  for (const CoarseScale& scale : scales)
    target.create_dataset(scale.name, {std::ssize(scale.means)}, ElementType::float64);
  target.write_attribute("coarsened", provenance(copy, source, all));
  collective_try(world, [&] {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Samples& samples = all[i];
      Range rows = piece(samples.reader.shape().front(), world.rank(), world.size());
      if (is_whole(copy)) rows = {0, static_cast<int>(i) % world.size() == world.rank() ? 1 : 0};
      copy_rows(copy, samples, rows, target);
    }
  });
  for (const CoarseScale& scale : scales)
    if (world.root()) target.write_rows(scale.name, 0, std::as_bytes(std::span(scale.means)));
  target.copy_datasets(copy.source, others);
  target.copy_attributes(copy.source, {"/"});
  for (const CoarseScale& scale : scales) target.copy_attributes(copy.source, {scale.name}, true);
  for (const Samples& samples : all) {
    const Packing& packing = samples.reader.packing();
    if (packing.declared && copy.type == ElementType::float32) target.mark_missing(samples.name);
    target.copy_attributes(copy.source, {samples.name}, packing.declared || packing.scaled());
  }
  target.copy_names(copy.source, file_names);
  for (const std::string& text : target.left_out()) made.notes.push_back("not in the copy: " + text);
  target.commit();
  // The root's answer counts: on network file systems, other ranks may not see the new file yet.
  collective_try(world, [&] {
    if (world.root()) made.bytes = static_cast<Index>(std::filesystem::file_size(copy.target));
  });
  world.broadcast(std::span(&made.bytes, 1), 0);
  return made;
}

}  // namespace mrmf
