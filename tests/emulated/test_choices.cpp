// What the CUDA backend chooses by time: algorithms of cuBLASLt and engines of cuDNN. The emulated device's time is
// reckoned, so the fastest is the one that a setting makes fast.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/conv_plan_trial_and_choice.hpp"
#include "kernels/errors.hpp"
#include "tests/emulated/test_support.hpp"

using namespace mrmf;

namespace {

/// What the emulated libraries run, by its name ("algorithm 3", "engine 7"): how often.
class Trace {
 public:
  Trace() : file_(folder_ + "/trace"), setting_("MRMF_EMULATED_TRACE", file_) {}
  ~Trace() { std::filesystem::remove_all(folder_); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Since the last call.
  std::map<std::string, int> take() {
    std::map<std::string, int> runs;
    std::ifstream lines(file_);
    for (std::string line, kind, number; std::getline(lines, line);) {
      std::istringstream(line) >> kind >> number;
      ++runs[kind + " " + number];
    }
    std::filesystem::remove(file_);
    return runs;
  }

 private:
  static std::string make_folder() {
    std::string name = std::filesystem::temp_directory_path() / "mrmf-test-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    return name;
  }
  std::string folder_ = make_folder(), file_;
  Setting setting_;
};

cuda::Settings settings(bool deterministic) {
  cuda::Settings chosen;
  chosen.precision = Precision::tf32;
  chosen.deterministic = deterministic;
  return chosen;
}

/// A dense layer of 16 x 8 values: which algorithms were tried for it, and which then ran its three products.
struct Chosen {
  std::map<std::string, int> tried, used;
};

Chosen dense_layer(bool deterministic, std::size_t workspace = std::size_t{64} << 20) {
  constexpr Index in = 16, out = 8, rows = 4;
  Trace trace;
  cuda::Settings wanted = settings(deterministic);
  wanted.workspace = workspace;
  cuda::CudaBackend backend(wanted);
  const auto layer = backend.dense(in, out, rows);
  layer->prepare(rows);
  Chosen chosen{trace.take(), {}};
  const Shape x{.n = rows, .channels = in}, y{.n = rows, .channels = out};
  Arena from = backend.allocate(backend.activation_floats(x)), to = backend.allocate(backend.activation_floats(y)),
        weights = backend.allocate(in * out), bias = backend.allocate(out);
  layer->forward({x, from.span()}, weights.span(), bias.span(), {y, to.span()});
  layer->backward_data({y, to.span()}, weights.span(), {x, from.span()});
  layer->backward_weights({x, from.span()}, {y, to.span()}, weights.span(), bias.span());
  backend.finish();
  chosen.used = trace.take();
  return chosen;
}

cuda::ConvProblem convolution(bool deterministic) {
  cuda::ConvProblem problem;
  problem.geometry.in_channels = problem.geometry.out_channels = 8;
  problem.geometry.in = {1, 1, 32};
  problem.geometry.kernel = {1, 1, 3};
  problem.precision = Precision::tf32;
  problem.deterministic = deterministic;
  return problem;
}

std::string chosen_engine(bool deterministic) {
  cuda::Device device(settings(deterministic));
  return device.plans().choose(convolution(deterministic))->engine();
}

}  // namespace

TEST_CASE("dense layers take the fastest of cuBLASLt's first eight algorithms") {
  const Setting ten("MRMF_EMULATED_ALGORITHMS", "10");
  for (const char* const fast : {"0", "5", "7"}) {
    const Setting one("MRMF_EMULATED_FAST_ALGORITHM", fast);
    CHECK(dense_layer(false).used == std::map<std::string, int>{{std::string("algorithm ") + fast, 3}});
  }
  const Setting ninth("MRMF_EMULATED_FAST_ALGORITHM", "8");
  const Chosen chosen = dense_layer(false);
  CHECK(chosen.tried.size() == 8);
  CHECK(chosen.tried.count("algorithm 8") == 0);
  CHECK(chosen.used == std::map<std::string, int>{{"algorithm 0", 3}});  // all take the same time
}

TEST_CASE("deterministic dense layers take cuBLASLt's first algorithm and try none") {
  const Setting ten("MRMF_EMULATED_ALGORITHMS", "10"), fast("MRMF_EMULATED_FAST_ALGORITHM", "5");
  const Chosen chosen = dense_layer(true);
  CHECK(chosen.tried.empty());
  CHECK(chosen.used == std::map<std::string, int>{{"algorithm 0", 3}});
}

TEST_CASE("an algorithm of cuBLASLt that fails keeps none of the others from its turn") {
  const Setting first("MRMF_EMULATED_REFUSED_ALGORITHMS", "1");
  {
    const Setting ten("MRMF_EMULATED_ALGORITHMS", "10"), fast("MRMF_EMULATED_FAST_ALGORITHM", "5");
    CHECK(dense_layer(false).used == std::map<std::string, int>{{"algorithm 5", 3}});
  }
  CHECK(dense_layer(false).used == std::map<std::string, int>{{"algorithm 1", 3}});
}

TEST_CASE("a product that no algorithm of cuBLASLt can do is named by its shape") {
  const auto message = [] {
    try {
      dense_layer(false);
    } catch (const FaultError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  {
    const Setting none("MRMF_EMULATED_ALGORITHMS", "0");
    CHECK(message() == "cuBLASLt has no algorithm for a product of 8 x 16 by 16 x 4 in 64 MB of workspace");
  }
  const Setting refused("MRMF_EMULATED_REFUSED_ALGORITHMS", "2");  // as many as there are
  CHECK(message().find("no algorithm of cuBLASLt computes a product of 8 x 16 by 16 x 4: cuBLAS: ") == 0);
}

TEST_CASE("dense layers try no algorithms where the device has no room for it") {
  const Setting ten("MRMF_EMULATED_ALGORITHMS", "10"), fast("MRMF_EMULATED_FAST_ALGORITHM", "5");
  const Chosen chosen = dense_layer(false, std::size_t{2} << 30);  // as much workspace as the device has memory
  CHECK(chosen.tried.empty());
  CHECK(chosen.used == std::map<std::string, int>{{"algorithm 0", 3}});
}

TEST_CASE("convolutions take the fastest engine that is right; deterministic ones the first") {
  for (const char* const fast : {"4", "5", "6", "7"}) {
    const Setting one("MRMF_EMULATED_FAST_ENGINE", fast);
    const bool compiled = std::string(fast) < "6";  // by NVRTC, which is not waited for where others are right
    CHECK((chosen_engine(false) == std::string("engine ") + fast) != compiled);
    CHECK(chosen_engine(true) == "engine 7");  // precompiled, and always the same bits
  }
  const Setting wrong("MRMF_EMULATED_WRONG_ENGINE", "1"), fast("MRMF_EMULATED_FAST_ENGINE", "1");
  CHECK(chosen_engine(false) != "engine 1");
}
