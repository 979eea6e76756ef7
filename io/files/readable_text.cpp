#include "io/files/readable_text.hpp"

#include <algorithm>
#include <string_view>

namespace mrmf {
namespace {

// The bytes of the UTF-8 character that begins here; 0: none does.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool outside = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return overlong || outside ? 0 : length;
}

}  // namespace

std::string readable_text(const std::string& text) {
  std::string readable;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = utf8_length(std::string_view(text).substr(at));
    if (length == 0)  // Latin-1, whose numbers are Unicode's
      readable += {static_cast<char>(0xC0 | byte >> 6), static_cast<char>(0x80 | (byte & 0x3F))};
    else if (byte < 0x20 || byte == 0x7f)
      readable += ' ';
    else
      readable += text.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return readable;
}

}  // namespace mrmf
