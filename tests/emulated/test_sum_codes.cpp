// Codes of sums over ranks, made, added and read on the emulated device, against what a slow counter says.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "kernels/cuda/runtime.hpp"
#include "kernels/cuda/sum_codes.hpp"
#include "tests/emulated/test_support.hpp"

using namespace mrmf;
using namespace mrmf::cuda;

namespace {

using Floats = std::vector<float>;

struct TestRank {
  DeviceFloats values, residual, sum_residual;
  DeviceBuffer sent, gathered, results, tensors, factors, partials;
  CodeLayout layout;
  CodedPart part;

  TestRank(const Floats& of, CodedPart how, int ranks, int rank)
      : values(of), residual(Floats(of.size())), sum_residual(Floats(of.size())), part(how) {
    part.values = {values.get(), of.size()};
    if (!how.residual.empty()) {
      part.residual = {residual.get(), of.size()};
      part.sum_residual = {sum_residual.get(), of.size()};
    }
    layout = CodeLayout::of(part, ranks, rank);
    const auto all = static_cast<std::size_t>(ranks);
    sent = DeviceBuffer(all * layout.code_bytes()), gathered = DeviceBuffer(all * layout.code_bytes());
    results = DeviceBuffer(all * layout.result_bytes());
    tensors = DeviceBuffer(part.tensors.size_bytes()), factors = DeviceBuffer(part.tensors.size() * sizeof(float));
    partials = DeviceBuffer(factor_partials(part) * sizeof(double));
    if (!part.tensors.empty())
      REQUIRE_CUDA(cudaMemcpy(tensors.get(), part.tensors.data(), tensors.bytes(), cudaMemcpyHostToDevice));
  }
  CodeBuffers buffers() const {
    return {sent.get<std::byte>(),      gathered.get<std::byte>(), results.get<std::byte>(),
            tensors.get<CodedTensor>(), factors.get<float>(),      partials.get<double>()};
  }
};

struct TestRanks {
  std::vector<std::unique_ptr<TestRank>> ranks;
  DeviceBuffer step{sizeof(StepBlock)};
  TestStream stream;

  // `how` by rank, or one for all.
  TestRanks(const std::vector<Floats>& values, const std::vector<CodedPart>& how) {
    const StepBlock block{.seed = 7, .number = 3};
    REQUIRE_CUDA(cudaMemcpy(step.get(), &block, sizeof block, cudaMemcpyHostToDevice));
    for (std::size_t r = 0; r < values.size(); ++r)
      ranks.push_back(std::make_unique<TestRank>(values[r], how[std::min(r, how.size() - 1)],
                                                 static_cast<int>(values.size()), static_cast<int>(r)));
  }

  // Every rank's result, which is the same.
  Floats sum() {
    for (const auto& rank : ranks) make_codes(stream, rank->layout, rank->part, rank->buffers());
    synchronize(stream);
    for (std::size_t from = 0; from < ranks.size(); ++from)
      for (std::size_t to = 0; to < ranks.size(); ++to)
        if (from != to) copy(ranks[from]->sent, to, ranks[to]->gathered, from, ranks[from]->layout.code_bytes());
    for (const auto& rank : ranks) add_codes(stream, rank->layout, rank->part, rank->buffers(), step.get<StepBlock>());
    synchronize(stream);
    for (std::size_t from = 0; from < ranks.size(); ++from)
      for (std::size_t to = 0; to < ranks.size(); ++to)
        if (from != to) copy(ranks[from]->results, from, ranks[to]->results, from, ranks[from]->layout.result_bytes());
    for (const auto& rank : ranks) read_sums(stream, rank->layout, rank->part, rank->buffers());
    synchronize(stream);
    const Floats first = ranks.front()->values.values();
    for (const auto& rank : ranks)
      CHECK(std::memcmp(rank->values.values().data(), first.data(), 4 * first.size()) == 0);
    return first;
  }
  void copy(const DeviceBuffer& from, std::size_t at, const DeviceBuffer& to, std::size_t target, std::size_t bytes) {
    REQUIRE_CUDA(cudaMemcpyAsync(to.get<std::byte>() + target * bytes, from.get<std::byte>() + at * bytes, bytes,
                                 cudaMemcpyDeviceToDevice, stream));
  }
};

std::vector<Floats> random_values(std::size_t ranks, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Floats> all(ranks, Floats(count));
  for (Floats& values : all)
    for (float& value : values) value = random() % 7 == 0 ? 0 : normal(random);
  return all;
}

float sign_of(double x) { return x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F; }

const std::vector<std::size_t> kRanks{1, 2, 3, 5, 15, 127};
constexpr std::size_t kCount = 1537;  // not a multiple of anything

}  // namespace

TEST_CASE("sums of rounded values are those of a slow counter, as near as their codes") {
  for (const CodeFormat code : {CodeFormat::bf16, CodeFormat::scaled})
    for (const std::size_t ranks : kRanks) {
      CAPTURE(ranks);
      const std::vector<Floats> values = random_values(ranks, kCount, 1);
      const float weight = 1.0F / static_cast<float>(ranks);
      const Floats sum = TestRanks(values, {{.code = code, .weight = weight}}).sum();
      for (std::size_t i = 0; i < kCount; ++i) {
        double exact = 0, sizes = 0;
        for (const Floats& one : values) exact += one[i] * weight, sizes += std::abs(one[i] * weight);
        const double near = code == CodeFormat::bf16 ? sizes / 128 : 5.0 / 127;  // half a step there, and half back
        CHECK(std::abs(sum[i] - exact) <= near);
      }
    }
}

TEST_CASE("what roundings leave out comes with the next sums") {
  for (const CodeFormat code : {CodeFormat::bf16, CodeFormat::scaled}) {
    const std::vector<Floats> values = random_values(3, kCount, 2);
    float any = 0;
    TestRanks ranks(values, {{.code = code, .residual = {&any, 1}}});
    std::vector<double> total(kCount);
    constexpr int kSteps = 50;
    for (int step = 0; step < kSteps; ++step) {
      for (std::size_t r = 0; r < 3; ++r)
        REQUIRE_CUDA(cudaMemcpy(ranks.ranks[r]->values.get(), values[r].data(), 4 * kCount, cudaMemcpyHostToDevice));
      const Floats sum = ranks.sum();
      for (std::size_t i = 0; i < kCount; ++i) total[i] += sum[i];
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      const double exact = double{values[0][i]} + values[1][i] + values[2][i];
      CHECK(std::abs(total[i] / kSteps - exact) <= 0.004);
    }
  }
}

TEST_CASE("signs of sums of levels are those of a slow counter") {
  const std::vector<CodedTensor> tensors{{0, 5}, {5, 700}, {705, 1}, {706, kCount - 706}};
  for (const auto code : {CodeFormat::levels8, CodeFormat::levels4})
    for (const bool geometric : {false, true})
      for (const std::size_t ranks : kRanks) {
        CAPTURE(ranks);
        const int most = code == CodeFormat::levels4 ? 7 : 127 / static_cast<int>(ranks);
        const float mean_level = static_cast<float>(most) / 2;
        std::vector<Floats> values = random_values(ranks, kCount, 3);
        for (Floats& one : values) std::fill_n(one.begin(), 5, 0.0F);  // a tensor of zeros moves nothing
        const Floats sum = TestRanks(values, {{.code = code,
                                               .most_level = most,
                                               .mean_level = mean_level,
                                               .geometric = geometric,
                                               .tensors = tensors}})
                               .sum();
        for (const CodedTensor& tensor : tensors) {
          std::vector<long> levels(tensor.count);
          std::vector<char> halfway(tensor.count);  // so near that the order of additions decides
          for (const Floats& one : values) {
            double mean = 0, counted = 0;
            for (std::size_t i = tensor.first; i < tensor.first + tensor.count; ++i)
              if (!geometric || one[i] != 0)
                mean += geometric ? std::log2(std::abs(one[i])) : std::abs(one[i]), counted += 1;
            mean = counted == 0 ? 0 : geometric ? std::exp2(mean / counted) : mean / counted;
            const auto factor = static_cast<float>(mean == 0 ? 0 : mean_level / mean);
            for (std::size_t i = 0; i < tensor.count; ++i) {
              const float scaled = factor * one[tensor.first + i];
              levels[i] += std::clamp(std::lround(std::rint(scaled)), -long{most}, long{most});
              if (std::abs(std::abs(scaled - std::floor(scaled)) - 0.5F) < 1e-5F) halfway[i] = 1;
            }
          }
          for (std::size_t i = 0; i < tensor.count; ++i)
            if (halfway[i] == 0) CHECK(sum[tensor.first + i] == sign_of(static_cast<double>(levels[i])));
        }
      }
}

TEST_CASE("votes are counted by rows; ties are broken alike, and a place with zeros alone stays") {
  for (const std::size_t ranks : kRanks) {
    CAPTURE(ranks);
    std::vector<Floats> values = random_values(ranks, kCount, 4);
    for (Floats& one : values) one[100] = 0;
    std::vector<CodedPart> how;
    for (std::size_t r = 0; r < ranks; ++r)
      how.push_back({.code = CodeFormat::votes, .rows = r % 3 == 1 ? 2U : r == 3 ? 0U : 1U});
    const Floats sum = TestRanks(values, how).sum();
    CHECK(std::memcmp(TestRanks(values, how).sum().data(), sum.data(), 4 * kCount) == 0);
    double plus = 0, ties = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      long votes = 0;
      bool voted = false;
      for (std::size_t r = 0; r < ranks; ++r)
        votes += static_cast<long>(sign_of(values[r][i])) * how[r].rows,
            voted = voted || (values[r][i] != 0 && how[r].rows > 0);
      if (votes != 0 || !voted) {
        CHECK(sum[i] == sign_of(static_cast<double>(votes)));
      } else {
        CHECK(std::abs(sum[i]) == 1);
        ties += 1, plus += sum[i] > 0 ? 1 : 0;
      }
    }
    if (ties > 100) CHECK(std::abs(plus / ties - 0.5) < 0.2);
  }
}

TEST_CASE("a value that is not finite makes that of the sum NaN on every rank") {
  const std::vector<CodedTensor> tensors{{0, kCount}};
  for (const auto code :
       {CodeFormat::bf16, CodeFormat::scaled, CodeFormat::levels8, CodeFormat::levels4, CodeFormat::votes})
    for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<Floats> values = random_values(3, kCount, 5);
      values[1][700] = odd;
      const Floats sum =
          TestRanks(values, {{.code = code, .most_level = 7, .mean_level = 3.5F, .tensors = tensors}}).sum();
      CHECK_FALSE(std::isfinite(sum[700]));
    }
}
