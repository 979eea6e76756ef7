// Pictures inside of an HTML page. Private to src/compare.
#pragma once

#include <string>

#include "src/run/model_report.hpp"

namespace mrmf {

/// The picture as the text of a PNG file within a page ("data:image/png;base64,..."), not compressed.
std::string png_address(const Picture& picture);

/// An <img> of it, with its title for those who cannot see it.
std::string html_picture(const Picture& picture);

}  // namespace mrmf
