// Keys whose values are numbers per axis with more to them than an Extent: the resolutions, a layer's sizes and the
// padding.
#include <array>

#include "kernels/check.hpp"
#include "src/config/schema.hpp"

namespace mrmf {
namespace {

constexpr const char* kPadding =
    "\"valid\", \"same\", a number, or one to three entries, each a number or a pair [before, after] of at least 0";
constexpr const char* kSize =
    "an integer for every axis, or one to three per axis such as [3] or [3, 3, 3], each at least 1";

int numbers_of(const Value& value) {
  return value.kind == Value::Kind::list ? static_cast<int>(value.items.size()) : 1;
}

void read_size(const Value& value, const std::string& path, Extent& size) {
  const std::vector<Value> items = read_list(value);
  if (items.empty() || items.size() > size.size()) refuse(value, path, kSize);
  size = {1, 1, 1};
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool good = items[i].kind == Value::Kind::integer && items[i].integer >= 1 && items[i].integer <= (1 << 20);
    if (!good) refuse(value, path, kSize);
    size[size.size() - items.size() + i] = items[i].integer;
  }
}

// What is padded before and after one axis, or false.
bool read_pads(const Value& value, Index& before, Index& after) {
  const std::vector<Value> numbers = read_list(value);
  if (numbers.size() > 2 || numbers.empty() || (numbers.size() == 1 && value.kind == Value::Kind::list)) return false;
  for (const Value& number : numbers) {
    const bool good = number.kind == Value::Kind::integer && number.integer >= 0 && number.integer <= (1 << 20);
    if (!good) return false;
  }
  before = numbers.front().integer;
  after = numbers.back().integer;
  return true;
}

void read_padding(LayerSpec& spec, const Value& value, const std::string& path) {
  spec.same_padding = spec.one_for_all.padding = false;
  spec.pad_before = spec.pad_after = {0, 0, 0};
  if (value.kind == Value::Kind::text) {
    if (value.text != "valid" && value.text != "same") refuse(value, path, kPadding);
    spec.same_padding = value.text == "same";
    return;
  }
  spec.one_for_all.padding = value.kind != Value::Kind::list;
  const std::vector<Value> entries = read_list(value);
  bool good = !entries.empty() && entries.size() <= spec.pad_before.size();
  for (std::size_t i = 0; good && i < entries.size(); ++i) {
    const std::size_t axis = spec.pad_before.size() - entries.size() + i;
    good = read_pads(entries[i], spec.pad_before[axis], spec.pad_after[axis]);
  }
  if (!good) refuse(value, path, kPadding);
}

std::string write_padding(const LayerSpec& spec) {
  if (spec.same_padding) return "\"same\"";
  if (spec.one_for_all.padding) return std::to_string(spec.pad_before.back());
  std::string text;
  for (std::size_t axis = 0; axis < spec.pad_before.size(); ++axis) {
    const Index before = spec.pad_before[axis], after = spec.pad_after[axis];
    if (text.empty() && before == 0 && after == 0) continue;  // leading axes need no entry
    text += (text.empty() ? "" : ", ") +
            (before == after ? std::to_string(before) : fmt::format("[{}, {}]", before, after));
  }
  return text.empty() ? "\"valid\"" : "[" + text + "]";
}

void read_resolutions(MethodConfig& method, const Value& value, const std::string& path) {
  method.resolutions.clear();
  method.axes = 0;
  for (const Value& item : read_list(value)) {
    method.resolutions.push_back(read_extent(item, path, at_least(1)));
    const int numbers = numbers_of(item);
    if (numbers == 1 && method.resolutions.back() == Extent{1, 1, 1}) continue;  // [1]: the data as it is
    if (method.axes == 0) method.axes = numbers;
    if (method.axes == numbers) continue;
    throw ConfigError(fmt::format("{}: {} has entries of {} and of {} numbers; give each as many as the data has axes",
                                  item.where, path, method.axes, numbers));
  }
}

}  // namespace

Key<LayerSpec> size_key(const std::string& path, Extent LayerSpec::*size, bool OneForAll::*once,
                        const std::string& meaning) {
  return {path, kSize, meaning,
          [=](LayerSpec& spec, const Value& value, const std::string& full) {
            read_size(value, full, spec.*size);
            spec.one_for_all.*once = value.kind != Value::Kind::list;
          },
          [=](const LayerSpec& spec) {
            return spec.one_for_all.*once ? std::to_string((spec.*size).back()) : write_extent(spec.*size);
          }};
}

Key<LayerSpec> padding_key() {
  return {"padding", kPadding,
          "of a conv: none, such that the output has ceil(input / stride) positions, or zeros before and after each "
          "axis: 1 for every axis, [[1, 2]] for one, [1, 1, 1] for three; a list shorter than the axes counts from the "
          "last",
          read_padding, write_padding};
}

Key<MethodConfig> resolutions_key() {
  return {"resolutions", expected<std::vector<Extent>>({}),
          "averaging factors, coarse to fine: [[4], [2], [1]] for data of one axis, [[2, 2, 2], [1, 1, 1]] for three; "
          "as many per resolution as the data has axes, or [1] for the data as they are",
          read_resolutions, [](const MethodConfig& method) {
            std::string text;
            for (const Extent& extent : method.resolutions)
              text += (text.empty() ? "" : ", ") + write_extent(extent, method.axes);
            return "[" + text + "]";
          }};
}

}  // namespace mrmf
