#include "io/sample_form.hpp"

#include <algorithm>
#include <vector>

namespace mrmf {
namespace {

constexpr Extent original{1, 1, 1};
constexpr Index part_elements = Index{1} << 18;  // enough that starting on a part costs nothing beside it

/// The flat buffer of a (T, C) sample, read as (C, T), as channels-last.
void turn(ConstSpan flat, const Shape& sample, Span x) {
  const Index positions = product(sample.spatial), channels = sample.channels;
  for (Index c = 0; c < channels; ++c)
    for (Index t = 0; t < positions; ++t)
      x[static_cast<std::size_t>(t * channels + c)] = flat[static_cast<std::size_t>(c * positions + t)];
}

Index lines_of(const Shape& sample) { return sample.spatial[0] * sample.spatial[1]; }

}  // namespace

Index form_parts(const SampleForm& form) {
  if (form.layout == SampleLayout::reinterpret) return 1;
  const Index wanted = std::max<Index>(1, form.stored.per_sample() / part_elements);
  return form.factor == original ? wanted : std::min(wanted, lines_of(coarse_shape(form.stored, form.factor)));
}

void form_sample(const SampleForm& form, const std::byte* row, FormPart part, Span x) {
  if (form.layout == SampleLayout::reinterpret) {
    std::vector<float> flat(x.size());
    SampleForm straight = form;
    straight.layout = SampleLayout::transpose;
    form_sample(straight, row, {}, flat);
    turn(flat, coarse_shape(form.stored, form.factor), x);
  } else if (form.factor == original) {
    const Range mine = piece(std::ssize(x), part.number, part.of);
    to_float32(form.type, row + mine.first * size_of(form.type),
               x.subspan(static_cast<std::size_t>(mine.first), static_cast<std::size_t>(mine.count)));
  } else {
    const Shape small = coarse_shape(form.stored, form.factor);
    const Range mine = piece(lines_of(small), part.number, part.of);
    coarsen_lines({form.type, form.stored, row}, form.factor, mine,
                  x.data() + mine.first * small.spatial[2] * small.channels);
  }
}

}  // namespace mrmf
