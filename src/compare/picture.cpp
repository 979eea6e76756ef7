#include "src/compare/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/compare/chart.hpp"

namespace mrmf {
namespace {

void add_number(std::string& to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift & 0xFF);
}

std::uint32_t crc(const std::string& bytes) {
  std::uint32_t sum = 0xFFFFFFFF;
  for (const char byte : bytes) {
    sum ^= static_cast<std::uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ ((sum & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~sum;
}

std::uint32_t adler(const std::string& bytes) {
  std::uint32_t a = 1, b = 0;
  for (const char byte : bytes) {
    a = (a + static_cast<std::uint8_t>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

void add_chunk(std::string& file, const std::string& kind, const std::string& bytes) {
  add_number(file, static_cast<std::uint32_t>(bytes.size()));
  file += kind + bytes;
  add_number(file, crc(kind + bytes));
}

// The zlib format with blocks that are stored as they are.
std::string stored(const std::string& bytes) {
  constexpr std::size_t most = 65535;
  std::string out{"\x78\x01", 2};
  for (std::size_t first = 0; first < bytes.size(); first += most) {
    const std::size_t count = std::min(most, bytes.size() - first);
    out += static_cast<char>(first + count == bytes.size() ? 1 : 0);
    const std::array<std::size_t, 2> lengths{count, ~count & 0xFFFF};
    for (const std::size_t length : lengths) {
      out += static_cast<char>(length & 0xFF);
      out += static_cast<char>(length >> 8 & 0xFF);
    }
    out += bytes.substr(first, count);
  }
  add_number(out, adler(bytes));
  return out;
}

std::string base64(const std::string& bytes) {
  constexpr const char* letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? letters[three >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace

std::string png_address(const Picture& picture) {
  std::string head, rows;
  add_number(head, static_cast<std::uint32_t>(picture.width));
  add_number(head, static_cast<std::uint32_t>(picture.height));
  head += std::string("\x08\x02\x00\x00\x00", 5);  // eight bits of red, green and blue
  const auto width = static_cast<std::ptrdiff_t>(3 * picture.width);
  for (Index row = 0; row < picture.height; ++row) {
    rows += '\0';  // no filter
    rows.append(picture.rgb.begin() + row * width, picture.rgb.begin() + (row + 1) * width);
  }
  std::string file{"\x89PNG\r\n\x1a\n", 8};
  add_chunk(file, "IHDR", head);
  add_chunk(file, "IDAT", stored(rows));
  add_chunk(file, "IEND", "");
  return "data:image/png;base64," + base64(file);
}

std::string html_picture(const Picture& picture) {
  return fmt::format(
      "<figure class=\"picture\"><img src=\"{}\" alt=\"{}\" width=\"{}\" height=\"{}\"><figcaption>{}</figcaption>"
      "</figure>\n",
      png_address(picture), html(picture.title), picture.width, picture.height, html(picture.title));
}

}  // namespace mrmf
