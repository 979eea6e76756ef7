// Rows that are texts. Private to io/.
#pragma once

#include <memory>

#include "io/data_file.hpp"
#include "io/row_source.hpp"

namespace mrmf {

/// Texts of that name; null where it has none. `whole`: all of them are one row.
std::unique_ptr<const RowSource> open_words(const std::shared_ptr<const DataFile>& file, const RowName& name,
                                            bool whole);

}  // namespace mrmf
