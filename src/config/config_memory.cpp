// The key whose value is an amount of memory.
#include <array>
#include <cmath>
#include <sstream>
#include <utility>

#include "src/config/schema.hpp"

namespace mrmf {
namespace {

constexpr const char* kMemory = "a number of GB above 0, or a text such as \"8 GB\", \"500 MB\" or \"1.5 TB\"";

// "8 GB" in GB; 0 when it is no such text.
double gigabytes(const std::string& text) {
  constexpr std::array<std::pair<const char*, double>, 6> units{
      {{"MB", 1e-3}, {"GB", 1}, {"TB", 1e3}, {"MiB", 0x1p20 / 1e9}, {"GiB", 0x1p30 / 1e9}, {"TiB", 0x1p40 / 1e9}}};
  std::istringstream words(text);
  double number = 0;
  std::string unit, rest;
  words >> number >> unit;
  if (words.fail() || words >> rest) return 0;
  for (const auto& [name, size] : units)
    if (unit == name) return number * size;
  return 0;
}

}  // namespace

Key<DataConfig> memory_key() {
  return {"memory", kMemory,
          "memory of a node for samples, shared by its ranks; half of what the job may use there unless set",
          [](DataConfig& data, const Value& value, const std::string& path) {
            const bool number = value.kind == Value::Kind::integer || value.kind == Value::Kind::real;
            const double wanted = number                            ? read_real(value, path, {})
                                  : value.kind == Value::Kind::text ? gigabytes(value.text)
                                                                    : 0;
            if (!(wanted > 0) || wanted > 1e9) refuse(value, path, kMemory);
            data.memory = wanted;
          },
          [](const DataConfig& data) { return data.memory ? fmt::format("{}", *data.memory) : ""; }};
}

}  // namespace mrmf
