// What backward hands to the ranks' sum, part by part.
#include <doctest/doctest.h>

#include <limits>

#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/small_model.hpp"

namespace mrmf::test {
namespace {

/// Keeps what it is given, with the values there at that moment.
class RecordedSum final : public AllReduce {
 public:
  explicit RecordedSum(Backend& backend) : backend_(backend) {}
  struct Part {
    Span span;
    std::vector<float> values;
  };
  std::vector<Part> parts;
  int finished = 0;

  void sum(std::span<double>) override {}
  void start(Span part) override {
    CHECK(finished == 0);
    parts.push_back({part, std::vector<float>(part.size())});
    backend_.read(part, parts.back().values);
  }
  void finish() override { ++finished; }
  SumTime take_time() override { return {}; }

 private:
  Backend& backend_;
};

void check_buckets(Backend& backend, Index bucket) {
  CAPTURE(bucket);
  Model model(backend, small_model(41, 3));
  const auto feed = backend.feed(model.network().input(), 3);
  const Batch batch(model, 8, 5);
  std::ranges::copy(batch.values, feed->host(8).x.begin());
  std::ranges::fill(feed->host(8).targets, 0.5F);
  const Feed::Batch loaded = feed->submit(8);
  const StepContext step = batch.step(true);
  backend.begin(step);
  const ConstTensor y = model.forward(step, loaded.x);
  backend.loss({}, y.shape, y.shape.channels)->run(step, y, loaded.targets, model.output_gradient(8), model.loss());
  RecordedSum sums(backend);
  model.backward(step, loaded.x, {.all_reduce = &sums, .same_block = nullptr, .bucket = bucket});

  CHECK(sums.finished == 1);
  // From the end of the arena to its start without a gap: every float once, the last layers first.
  const Span whole = model.reduce_buffer();
  float* open = whole.data() + whole.size();
  for (std::size_t i = 0; i < sums.parts.size(); ++i) {
    const RecordedSum::Part& part = sums.parts[i];
    CHECK(part.span.data() + part.span.size() == open);
    open = part.span.data();
    const bool last = i + 1 == sums.parts.size();
    if (!last) CHECK(static_cast<Index>(part.span.size()) >= bucket);
    CHECK(part.values == on_host(backend, part.span));  // nothing was written there afterwards
  }
  CHECK(open == whole.data());
  if (bucket == 1) CHECK(sums.parts.size() == 6);  // one for each layer that has parameters
  if (bucket > static_cast<Index>(whole.size())) CHECK(sums.parts.size() == 1);
}

}  // namespace

TEST_CASE("model: gradients are summed in parts that cover each once, last layers first") {
  std::vector<std::unique_ptr<Backend>> list;
  list.push_back(make_reference_backend());
  if (tests_cuda()) list.push_back(cuda_device(Precision::fp32));
  for (const auto& backend : list)
    for (const Index bucket :
         {Index{1}, Index{17}, Index{200}, Index{1000}, Index{100000}, std::numeric_limits<Index>::max()})
      check_buckets(*backend, bucket);
}

}  // namespace mrmf::test
