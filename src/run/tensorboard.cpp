// TensorBoard's event files: the epochs of a run as scalars. Declared in run_log.hpp.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>

#include "src/run/run_log.hpp"

namespace mrmf {
namespace {

// CRC-32C (Castagnoli), which the frames are checked by.
constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    table[byte] = crc;
  }
  return table;
}

std::uint32_t crc32c(const std::string& bytes) {
  static constexpr auto kTable = make_table();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU];
  return ~crc;
}

// Turned and shifted, as the format asks: a checksum of data that holds checksums would be weak.
std::uint32_t masked_crc(const std::string& bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

// A TFRecord: length, its checksum, data, their checksum.
std::string frame(const std::string& data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + little_endian(masked_crc(length)) + data + little_endian(masked_crc(data));
}

/// A protobuf message in the making.
class ProtoMessage {
 public:
  ProtoMessage& text(int field, const std::string& value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& message(int field, const ProtoMessage& value) { return text(field, value.bytes_); }
  ProtoMessage& integer(int field, std::int64_t value) {
    tag(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& real64(int field, double value) {
    tag(field, 1);
    bytes_ += little_endian(std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& real32(int field, float value) {
    tag(field, 5);
    bytes_ += little_endian(std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire) { varint(static_cast<std::uint64_t>(field * 8 + wire)); }
  void varint(std::uint64_t value) {
    for (; value > 0x7F; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// The fields' numbers in tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto.
enum Event { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
enum Summary { kValue = 1 };
enum Value { kTag = 1, kSimpleValue = 2 };

ProtoMessage& add(ProtoMessage& summary, const std::string& tag, double value) {
  if (std::isnan(value)) return summary;  // nothing to score
  return summary.message(kValue, ProtoMessage().text(kTag, tag).real32(kSimpleValue, static_cast<float>(value)));
}

}  // namespace

std::string event_file_start() {
  return frame(ProtoMessage().real64(kWallTime, 0).text(kFileVersion, "brain.Event:2").bytes());
}

std::string epoch_event(const EpochRecord& record, Index step) {
  ProtoMessage values;
  add(values, "loss/training", record.train_loss);
  add(values, "loss/validation", record.validation_loss);
  if (record.metric) add(values, "metric/validation_" + to_string(record.metric->metric), record.metric->value);
  add(values, "learning_rate", record.learning_rate);
  add(values, fmt::format("seconds_per_epoch/stage_{}_{}", record.stage, to_string(record.role)), record.seconds);
  return frame(
      ProtoMessage().real64(kWallTime, record.total_seconds).integer(kStep, step).message(kSummary, values).bytes());
}

std::string event_file(const std::vector<PhaseHistory>& phases) {
  std::string bytes = event_file_start();
  Index step = 0;
  for (const PhaseHistory& phase : phases)
    for (const EpochRecord& record : phase.epochs) bytes += epoch_event(record, ++step);
  return bytes;
}

}  // namespace mrmf
