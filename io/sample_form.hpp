// From a row as it is kept in memory to the sample that the model sees.
#pragma once

#include "io/coarsen.hpp"
#include "io/dataset.hpp"

namespace mrmf {

struct SampleForm {
  Shape stored;  ///< of the row
  ElementType type = ElementType::float32;
  Extent factor{1, 1, 1};  ///< averaged on the way
  SampleLayout layout = SampleLayout::transpose;
};

/// Into how many parts a sample of this form may be cut, for as many threads.
Index form_parts(const SampleForm& form);

/// Part `number` of `of`.
struct FormPart {
  Index number = 0, of = 1;
};
/// Makes a part of the sample from the row: averaged, as float32, channels-last. part.of is at most form_parts(form); x
/// is the whole sample.
void form_sample(const SampleForm& form, const std::byte* row, FormPart part, Span x);

}  // namespace mrmf
