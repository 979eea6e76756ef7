// cuDNN's backend interface: convolutions against plain loops, and the selection of plans.
#include <cmath>

#include "tests/emulated/numbers.hpp"
#include "tests/emulated/test_cudnn_graphs.hpp"

using namespace dnn_test;

namespace {

std::size_t volume(const Numbers& dims) {
  std::size_t product = 1;
  for (auto dim : dims) product *= static_cast<std::size_t>(dim);
  return product;
}

std::size_t at(const Numbers& dims, std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
  return static_cast<std::size_t>(((n * dims[2] + i) * dims[3] + j) * dims[1] + c);
}

/// Calls visit(index into x, into w, into y) for every product of the convolution.
template <class Visit>
void each_product(Visit visit) {
  for (std::int64_t n = 0; n < kRows; ++n)
    for (std::int64_t o = 0; o < kOut; ++o)
      for (std::int64_t i = 0; i < kY[2]; ++i)
        for (std::int64_t j = 0; j < kY[3]; ++j)
          for (std::int64_t c = 0; c < kIn; ++c)
            for (std::int64_t ki = 0; ki < 3; ++ki)
              for (std::int64_t kj = 0; kj < 2; ++kj) {
                const std::int64_t row = 2 * i + ki, col = j - 1 + kj;
                if (row < kX[2] && col >= 0 && col < kX[3])
                  visit(at(kX, n, c, row, col), at(kW, o, c, ki, kj), at(kY, n, o, i, j));
              }
}

double largest_difference(const std::vector<float>& values, const std::vector<double>& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = std::abs(double(values[i]) - expected[i]);
    if (!(difference <= largest)) largest = difference;  // also NaN
  }
  return largest;
}

// Sums of at most 48 products below 1, rounded to float once or twice.
constexpr double kFloatTolerance = 1e-5;

struct Data {
  std::vector<float> x = random_floats(volume(kX), 1), w = random_floats(volume(kW), 2),
                     y = random_floats(volume(kY), 3), bias = random_floats(kOut, 4);
};

/// Copies of floats as bfloat16 bits in a device array, and what they then stand for.
std::vector<float> as_bf16(std::vector<float>& values) {
  std::vector<float> packed((values.size() + 1) / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    mrmf::emulated::store(packed.data(), i, mrmf::emulated::Element::bf16, double(values[i]));
    values[i] = mrmf::emulated::load(packed.data(), i, mrmf::emulated::Element::bf16);
  }
  return packed;
}

std::vector<double> expected_forward(const Data& d) {
  std::vector<double> y(volume(kY));
  each_product([&](std::size_t x, std::size_t w, std::size_t to) { y[to] += double(d.x[x]) * double(d.w[w]); });
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] += double(d.bias[i % kOut]);
    if (y[i] < 0) y[i] *= 0.25;
  }
  return y;
}

}  // namespace

TEST_CASE("forward with bias and leaky ReLU, and its plan's text makes the plan again") {
  const Data d;
  const DeviceFloats x(d.x), w(d.w), bias(d.bias), y(volume(kY));
  const Made plan = exact_plan(forward_graph(CUDNN_DATA_FLOAT));
  REQUIRE_DNN(run(plan, {1, 2, 3, 4}, {x.get(), w.get(), bias.get(), y.get()}));
  CHECK(largest_difference(y.values(), expected_forward(d)) < kFloatTolerance);

  std::int64_t size = 0;
  REQUIRE_DNN(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0,
                                       &size, nullptr));
  std::string text(static_cast<std::size_t>(size), ' ');
  REQUIRE_DNN(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size,
                                       &size, text.data()));
  Made again(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  again.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size, text.data());
  REQUIRE_DNN(again.finish());
  const DeviceFloats second(volume(kY));
  REQUIRE_DNN(run(again, {1, 2, 3, 4}, {x.get(), w.get(), bias.get(), second.get()}));
  CHECK(second.values() == y.values());

  Made damaged(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  damaged.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size / 2, text.data());
  CHECK(damaged.finish() == CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH);
}

TEST_CASE("backward data and backward filter") {
  const Data d;
  std::vector<double> dx(volume(kX)), dw(volume(kW));
  each_product([&](std::size_t x, std::size_t w, std::size_t y) {
    dx[x] += double(d.y[y]) * double(d.w[w]);
    dw[w] += double(d.y[y]) * double(d.x[x]);
  });
  const DeviceFloats x(d.x), w(d.w), y(d.y), x_gradient(volume(kX)), w_gradient(volume(kW));
  REQUIRE_DNN(run(exact_plan(data_graph()), {1, 2, 4}, {y.get(), w.get(), x_gradient.get()}));
  CHECK(largest_difference(x_gradient.values(), dx) < kFloatTolerance);
  REQUIRE_DNN(run(exact_plan(filter_graph(CUDNN_DATA_FLOAT, false)), {1, 2, 4}, {x.get(), y.get(), w_gradient.get()}));
  CHECK(largest_difference(w_gradient.values(), dw) < kFloatTolerance);
}

TEST_CASE("bfloat16: forward, and filter gradients only through a virtual float tensor") {
  Data d;
  const DeviceFloats x(as_bf16(d.x)), w(as_bf16(d.w)), dy(as_bf16(d.y)), bias(d.bias);
  const DeviceFloats y(volume(kY) / 2), dw(volume(kW));
  REQUIRE_DNN(
      run(exact_plan(forward_graph(CUDNN_DATA_BFLOAT16)), {1, 2, 3, 4}, {x.get(), w.get(), bias.get(), y.get()}));
  const auto bits = y.values();
  std::vector<float> result(volume(kY));
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = mrmf::emulated::load(bits.data(), i, mrmf::emulated::Element::bf16);
  // Values below 16 in bfloat16: half a unit in the last place is 2^-9 of 16.
  CHECK(largest_difference(result, expected_forward(d)) < 16 * 0x1p-9);

  CHECK(proposals(filter_graph(CUDNN_DATA_BFLOAT16, false), CUDNN_HEUR_MODE_A).empty());
  std::vector<double> expected(volume(kW));
  each_product([&](std::size_t a, std::size_t b, std::size_t c) { expected[b] += double(d.y[c]) * double(d.x[a]); });
  REQUIRE_DNN(run(exact_plan(filter_graph(CUDNN_DATA_BFLOAT16, true)), {1, 2, 4}, {x.get(), dy.get(), dw.get()}));
  CHECK(largest_difference(dw.values(), expected) < kFloatTolerance);
}

TEST_CASE("heuristics propose engines of every sort") {
  const Made g = forward_graph(CUDNN_DATA_FLOAT);
  int failing = 0, large = 0, tensor_core = 0, nondeterministic = 0, exact = 0;
  for (const Made& config : proposals(g, CUDNN_HEUR_MODE_A)) {
    Made plan = plan_of(config);
    const cudnnStatus_t status = plan.finish();
    failing += status != CUDNN_STATUS_SUCCESS;
    if (status != CUDNN_STATUS_SUCCESS) continue;
    large += number(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) > (64 << 20);
    const auto list = notes(config);
    exact += list.empty();
    for (auto note : list) {
      tensor_core += note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
      nondeterministic += note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    }
  }
  CHECK(failing == 1);
  CHECK(large == 1);
  CHECK(tensor_core >= 2);
  CHECK(nondeterministic == 2);
  CHECK(exact == 1);
}

TEST_CASE("engines with tensor cores have a knob, others none") {
  for (const Made& config : proposals(forward_graph(CUDNN_DATA_FLOAT), CUDNN_HEUR_MODE_A)) {
    const Made choice(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    cudnnBackendDescriptor_t handle = choice.get();
    std::int64_t count = -1;
    REQUIRE_DNN(cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                         1, &count, &handle));
    const auto list = notes(config);
    const bool tensor_cores = !list.empty() && list.front() == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    CHECK(count == (tensor_cores ? 1 : 0));
    if (count == 1) CHECK(number(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE) > 0);
  }
}

TEST_CASE("MRMF_EMULATED_WRONG_ENGINE puts engines first whose results differ by a few percent") {
  const Environment wrong("MRMF_EMULATED_WRONG_ENGINE", "1");
  const Data d;
  const DeviceFloats x(d.x), w(d.w), bias(d.bias), y(volume(kY));
  const auto configs = proposals(forward_graph(CUDNN_DATA_FLOAT), CUDNN_HEUR_MODE_A);
  const Made plan = plan_of(configs[1]).finished();
  REQUIRE_DNN(run(plan, {1, 2, 3, 4}, {x.get(), w.get(), bias.get(), y.get()}));
  const double difference = largest_difference(y.values(), expected_forward(d));
  CHECK(difference > 0.05);
  CHECK(difference < 3);
}

TEST_CASE("mistakes are refused with a text") {
  Made unset(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  CHECK(unset.finish() == CUDNN_STATUS_BAD_PARAM);
  CHECK(last_error().find("missing") != std::string::npos);
  const float dims[] = {1, 2, 3, 4};
  unset.choose(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_FLOAT, 4, dims);
  CHECK(unset.finish() == CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  cudnnBackendDescriptor_t unknown = nullptr;
  CHECK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR, &unknown) == CUDNN_STATUS_NOT_SUPPORTED);

  const Data d;
  const DeviceFloats x(d.x), w(d.w), bias(d.bias), y(volume(kY));
  const Made plan = exact_plan(forward_graph(CUDNN_DATA_FLOAT));
  CHECK(run(plan, {1, 2, 3}, {x.get(), w.get(), bias.get()}) == CUDNN_STATUS_BAD_PARAM);
  CHECK(last_error().find("no pointer for tensor 4") != std::string::npos);
  CHECK(run(plan, {1, 2, 3, 4}, {x.get(), w.get(), bias.get(), y.get() + 1}) ==
        CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  CHECK(run(plan, {1, 2, 3, 4}, {x.get(), w.get(), bias.get(), y.get() + 16}) == CUDNN_STATUS_BAD_PARAM);
}
