#include "io/coarse_scales.hpp"

#include <cstddef>
#include <map>

#include "io/row_reader.hpp"

namespace mrmf {
namespace {

std::vector<double> means_of(const RowReader& reader, Index factor) {
  const Index rows = reader.shape().front();
  std::vector<std::byte> raw(static_cast<std::size_t>(rows * reader.row_bytes()));
  reader.read(0, rows, raw.data());
  std::vector<double> means(static_cast<std::size_t>(rows / factor));
  for (Index i = 0; i < rows; ++i)
    means[static_cast<std::size_t>(i / factor)] +=
        number_at(reader.type(), raw.data(), i) / static_cast<double>(factor);
  return means;
}

/// By scale, how many positions become one along the axes that it numbers; 0 where these differ.
std::map<ObjectIdentity, Index> factors_of_scales(const CoarseCopy& copy, const AxisOrder& order,
                                                  const Hdf5File& source, const std::vector<std::string>& all) {
  std::map<ObjectIdentity, Index> factors;
  const int rows = copy.rows == RowForm::axis ? 1 : 0;  // axes that count samples
  for (const std::string& samples : all) {
    const std::vector<std::vector<ObjectIdentity>> scales = source.scales_of_axes(samples);
    auto factor = copy.factor.end() - copy.axes;
    for (int axis = 0; axis < order.axes; ++axis) {
      const Index here = axis == order.channel ? 1 : *factor++;
      const auto place = static_cast<std::size_t>(axis + rows);
      if (place >= scales.size()) break;  // the last axes may be those of complex numbers
      for (const ObjectIdentity& scale : scales[place]) {
        const auto known = factors.emplace(scale, here).first;
        if (known->second != here) known->second = 0;
      }
    }
  }
  return factors;
}

}  // namespace

std::vector<CoarseScale> averaged_scales(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source,
                                         const FileNames& names, CoarseFile& made, std::vector<std::string>& others) {
  std::vector<CoarseScale> scales;
  for (const auto& [scale, factor] : factors_of_scales(copy, order, source, made.samples)) {
    const auto known = names.first.find(scale);
    if (factor == 1 || known == names.first.end()) continue;
    const std::string& name = known->second;
    if (std::erase(others, name) == 0) continue;
    const DatasetInfo info = source.info(name);
    const bool numbers = info.type != ElementType::other && !info.unclear && info.shape.size() == 1;
    if (factor > 1 && numbers && info.rows() % factor == 0) {
      scales.push_back({name, means_of(RowReader(copy.source, name, {.packing = copy.packing}), factor)});
      made.notes.push_back("'" + name + "' numbers an averaged axis: it holds the means of " + std::to_string(factor) +
                           " neighbours");
    } else {
      made.notes.push_back("'" + name + "' numbers averaged axes and cannot be averaged as they are: it is left out");
    }
  }
  return scales;
}

}  // namespace mrmf
