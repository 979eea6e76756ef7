#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <set>

#include "io/rows/sample_reader.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::message;

namespace {

/// Rows of one integer each: ten times their number. Remembers what was read.
struct Source {
  std::atomic<int> reads{0}, rows{0};
  std::set<Index> broken{};

  ReaderPool::Read read() {
    return [this](const ReadTask& task, Scratch&) {
      ++reads;
      rows += static_cast<int>(task.rows.count);
      for (Index i = 0; i < task.rows.count; ++i) {
        if (broken.contains(task.rows.first + i)) throw DataError("row " + std::to_string(task.rows.first + i));
        const std::int64_t value = 10 * (task.rows.first + i);
        std::memcpy(task.to + i * Index{sizeof value}, &value, sizeof value);
      }
    };
  }
};

std::vector<std::int64_t> row_values(const std::vector<const std::byte*>& rows) {
  std::vector<std::int64_t> result(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) std::memcpy(&result[i], rows[i], sizeof(std::int64_t));
  return result;
}

/// Rows [100, 140) of 8 bytes; `cached` of them stay.
RowStream::Settings stream_settings(Index cached, Index batches = 2) {
  return {{100, 40}, 8, {0, batches, cached}, 4, 3};
}

std::vector<std::int64_t> batch_of(const EpochOrder& order, std::size_t step) {
  const auto begin = order.ids.begin() + order.steps[step].first;
  return {begin, begin + order.steps[step].count};
}

}  // namespace

TEST_CASE("cache: keeps as many rows as have room, evenly spread, each at a place of its own") {
  for (const Index capacity : {0, 1, 13, 39, 40, 100}) {
    CAPTURE(capacity);
    const RowCache cache({5, 40}, Index{1} << 22, capacity);  // rows as long as a block: each is one
    std::set<const std::byte*> buffers;
    Index first_half = 0;
    for (Index row = 5; row < 45; ++row)
      if (cache.buffer_of(row) != nullptr) {
        buffers.insert(cache.buffer_of(row));
        first_half += static_cast<Index>(row < 25);
      }
    CHECK(std::ssize(buffers) == std::min<Index>(capacity, 40));
    CHECK(cache.kept() == std::min<Index>(capacity, 40));
    CHECK(std::abs(2 * first_half - std::min<Index>(capacity, 40)) <= 2);
  }
  const RowCache blocks({0, 4000}, 4096, 3000);  // 1024 rows a block, and the last one is short
  CHECK(blocks.kept() <= 3000);
  CHECK(blocks.kept() >= 1024);
  CHECK(blocks.buffer_of(1) == blocks.buffer_of(0) + (blocks.buffer_of(0) != nullptr ? 4096 : 0));
}

TEST_CASE("stream plan: everything where it fits, else at least a batch and the next") {
  StreamBudget budget{.rows = 100, .row_bytes = 1000, .batch_rows = 8, .scratch = 500, .bytes = 100500};
  CHECK(budget_stream(budget).cached == 100);
  CHECK(budget_stream(budget).batches == 0);
  budget.bytes = 100499;
  const StreamMemory most = budget_stream(budget);
  CHECK(most.batches == 3);  // four of 8000 bytes would be more than a quarter
  CHECK(most.cached == (100499 - 500 - 3 * 8000) / 1000);
  CHECK(most.least == 16500);
  budget.bytes = most.least;
  CHECK(budget_stream(budget).batches == 2);
  CHECK(budget_stream(budget).cached == 0);
  budget.rows = 3;  // fewer than a batch: no more than all of them is needed
  CHECK(budget_stream(budget).least == 3500);
}

TEST_CASE("stream: every batch of two epochs is right; the second reads only what has no place") {
  for (const Index cached : {0, 17, 40}) {
    CAPTURE(cached);
    Source source;
    RowStream stream(stream_settings(cached), source.read());
    const OrderSettings shuffled{140, 1, 0, 1, 7, true};
    for (const std::uint64_t epoch : {0, 1}) {
      EpochOrder order = epoch_order(shuffled, 1, 1, epoch);
      std::erase_if(order.ids, [](std::int64_t id) { return id < 100; });
      order.steps = in_order({0, 40}, 7).steps;
      stream.expect(order);
      stream.expect(order);  // said twice, it is still the same
      for (std::size_t k = 0; k < order.steps.size(); ++k) {
        const std::vector<std::int64_t> ids = batch_of(order, k);
        std::vector<std::int64_t> expected = ids;
        for (std::int64_t& id : expected) id *= 10;
        CHECK(row_values(stream.fetch(ids)) == expected);
        stream.done();
      }
      CHECK(source.rows == (epoch == 0 ? 40 : 40 + 40 - stream.kept()));
    }
  }
}

TEST_CASE("stream: neighbours are read together, up to the longest read") {
  Source source;
  RowStream stream(stream_settings(0), source.read());
  const std::vector<std::int64_t> ids = {107, 101, 100, 103, 102, 104, 130};  // 100..103, 104, 107, 130
  CHECK(row_values(stream.fetch(ids)) == std::vector<std::int64_t>{1070, 1010, 1000, 1030, 1020, 1040, 1300});
  CHECK(source.reads == 4);
}

TEST_CASE("stream: batches that nobody announced, and repeated ids") {
  Source source;
  RowStream stream(stream_settings(10), source.read());
  stream.expect(in_order({100, 40}, 5));
  for (const std::vector<std::int64_t>& ids : std::vector<std::vector<std::int64_t>>{{139, 100, 139}, {105}, {}}) {
    std::vector<std::int64_t> expected = ids;
    for (std::int64_t& id : expected) id *= 10;
    CHECK(row_values(stream.fetch(ids)) == expected);
    stream.done();
  }
}

TEST_CASE("stream: an error on a reader's thread comes out of its own batch, the first row's before others") {
  Source source;
  source.broken = {117, 119, 116};
  RowStream stream(stream_settings(12), source.read());
  const EpochOrder order = in_order({100, 40}, 10);
  stream.expect(order);
  CHECK(row_values(stream.fetch(batch_of(order, 0))).front() == 1000);
  stream.done();
  CHECK(message<DataError>([&] { stream.fetch(batch_of(order, 1)); }) == "row 116");
  CHECK(row_values(stream.fetch(batch_of(order, 2))).front() == 1200);
}

TEST_CASE("stream: goes away while reads are under way") {
  Source source;
  for (int i = 0; i < 20; ++i) {
    RowStream stream(stream_settings(5, 4), source.read());
    stream.expect(in_order({100, 40}, 10));
  }
  CHECK(source.rows <= 20 * 40);
}
