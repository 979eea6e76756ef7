#include "io/mask.hpp"

#include <cmath>
#include <type_traits>

namespace mrmf {
namespace {

template <typename Element>
void mask_lines(Element* line, Index positions, Index channels) {
  for (Index p = 0; p < positions; ++p, line += channels) {
    bool there = true;
    for (Index c = 0; c + 1 < channels; ++c) there = there && !std::isnan(to_float(line[c]));
    if constexpr (std::is_same_v<Element, Half>)
      line[channels - 1] = Half{static_cast<std::uint16_t>(there ? 0x3c00 : 0)};
    else
      line[channels - 1] = static_cast<Element>(there ? 1 : 0);
  }
}

}  // namespace

void write_mask(ElementType type, std::byte* values, Index positions, Index channels) {
  with_elements(type, values, [&](const auto* elements) {
    using Element = std::remove_cvref_t<decltype(*elements)>;
    mask_lines(reinterpret_cast<Element*>(values), positions, channels);
  });
}

}  // namespace mrmf
