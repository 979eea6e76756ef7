// The CPU's kernels by choice: every one computes the same convolution, choices pass through text and file unchanged,
// and what is damaged, foreign or of another machine is not used.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "io/files/input_file.hpp"
#include "kernels/cpu/kernel_choice.hpp"
#include "src/training/cpu_kernel_autotuning.hpp"
#include "tests/support/data_files.hpp"
#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

using cpu::ConvProblem;
using cpu::KernelChoice;
using cpu::KernelChoices;

ConvProblem conv_problem(const Extent& in, Index in_channels, Index out_channels, const Extent& kernel) {
  ConvProblem problem{ConvProblem::Kind::conv, {in_channels, out_channels, in, kernel}, 3, 2};
  for (std::size_t a = 0; a < 3; ++a) {
    problem.geometry.pad_before[a] = (kernel[a] - 1) / 2;
    problem.geometry.pad_after[a] = kernel[a] / 2;
  }
  return problem;
}

/// Results of the three passes of a convolution.
struct ConvPasses {
  std::vector<float> y, dx, dw, db;
};

ConvPasses passes_of(Backend& backend, const ConvProblem& p) {
  const ConvGeometry& g = p.geometry;
  Rng rng(11);
  const auto size = [](Index count) { return static_cast<std::size_t>(count); };
  std::vector<float> x = uniform(rng, size(p.rows * product(g.in) * g.in_channels)),
                     w = uniform(rng, size(g.weights())), b = uniform(rng, size(g.out_channels)),
                     dy = uniform(rng, size(p.rows * product(g.out()) * g.out_channels));
  if (p.kind == ConvProblem::Kind::dense)  // as behind a ReLU
    for (std::size_t i = 0; i < dy.size(); i += 2) dy[i] = 0;
  ConvPasses r{std::vector<float>(dy.size(), NAN), std::vector<float>(x.size(), NAN), std::vector<float>(w.size(), NAN),
               std::vector<float>(b.size(), NAN)};
  const Shape in{p.rows, g.in, g.in_channels, 3}, out{p.rows, g.out(), g.out_channels, 3};
  const auto op = p.kind == ConvProblem::Kind::dense ? backend.dense(g.in_channels, g.out_channels, p.rows)
                                                     : backend.conv(g, p.rows);
  op->prepare(p.rows);
  op->forward({in, x}, w, b, {out, r.y});
  op->backward_data({out, dy}, w, {in, r.dx});
  op->backward_weights({in, x}, {out, dy}, r.dw, r.db);
  return r;
}

/// The file in a folder of its own.
struct OwnFile {
  TemporaryFolder folder;
  std::string path = folder.path() + "/cache/kernels.txt";
  void replace(const std::string& from, const std::string& to) const {
    std::string text = read_file(path);
    text.replace(text.find(from), from.size(), to);
    std::ofstream(path) << text;
  }
};

KernelChoices two_choices() {
  KernelChoices choices;
  choices.put(conv_problem({8, 8, 8}, 8, 16, {3, 3, 3}).text(), {"winograd onednn direct", 2e-3, 1.5e-3});
  choices.put(conv_problem({1, 9, 9}, 2, 8, {1, 3, 3}).text(), {"direct", 1e-3, 1e-3});
  return choices;
}

}  // namespace

TEST_CASE("kernel choice: a problem and choices pass through text unchanged, and nonsense is none") {
  ConvProblem problem = conv_problem({4, 5, 6}, 7, 8, {3, 2, 1});
  for (const bool bias : {true, false}) {
    problem.geometry.bias = bias;
    const auto parsed = ConvProblem::parse(problem.text());
    REQUIRE(parsed.has_value());
    CHECK(parsed->text() == problem.text());
    CHECK(parsed->geometry.bias == bias);
  }
  for (const char* wrong :
       {"", "conv", "conv 1 2 3", "flat 1 2", "conv 1 1 1 0 1 1 1 1 1 1 1 1 1 1 1 0 0 0 0 0 0 1 1 1",
        "conv x 1 1 1 1 1 1 1 1 1 1 1 1 1 1 0 0 0 0 0 0 1 1 1"})
    CHECK_FALSE(ConvProblem::parse(wrong).has_value());

  const KernelChoices choices = two_choices();
  KernelChoices read;
  CHECK(read.add(choices.text()));
  CHECK(read.text() == choices.text());
  KernelChoices none;
  CHECK_FALSE(none.add(choices.text() + "conv 1 2\tdirect\t1\t1\n"));
  CHECK(none.all().empty());
}

TEST_CASE("kernel choice: all kernels compute the convolution that the reference computes") {
  const auto reference = make_reference_backend();
  const auto strided = [](ConvProblem problem, const Extent& stride) {
    problem.geometry.stride = stride;
    return problem;
  };
  ConvProblem padded = strided(conv_problem({1, 19, 32}, 16, 32, {1, 3, 3}), {1, 2, 2});
  padded.geometry.pad_before = {0, 2, 0}, padded.geometry.pad_after = {0, 0, 2};
  ConvProblem begins_outside = strided(conv_problem({1, 17, 32}, 16, 16, {1, 2, 2}), {1, 2, 2});
  begins_outside.geometry.pad_before = {0, 1, 1}, begins_outside.geometry.pad_after = {0, 0, 0};
  ConvProblem planes_outside = strided(conv_problem({5, 16, 32}, 16, 16, {1, 1, 1}), {2, 1, 2});
  planes_outside.geometry.pad_before[0] = 1;  // no window holds the first and the last plane
  ConvProblem unpadded = conv_problem({2, 12, 16}, 16, 16, {1, 3, 3});
  unpadded.geometry.pad_before = unpadded.geometry.pad_after = {0, 0, 0};
  for (const ConvProblem& problem :
       {strided(conv_problem({6, 5, 4}, 64, 48, {3, 3, 3}), {2, 2, 2}), padded, begins_outside, planes_outside,
        unpadded, strided(conv_problem({1, 16, 32}, 16, 32, {1, 1, 1}), {1, 2, 2}),
        strided(conv_problem({1, 16, 32}, 16, 32, {1, 3, 3}), {1, 2, 2}),
        strided(conv_problem({1, 17, 33}, 16, 32, {1, 1, 1}), {1, 2, 2}),
        strided(conv_problem({7, 18, 16}, 16, 16, {3, 3, 3}), {2, 2, 2}),
        strided(conv_problem({5, 33, 25}, 48, 16, {2, 2, 2}), {2, 2, 2}),
        strided(conv_problem({4, 40, 11}, 3, 32, {2, 5, 4}), {1, 3, 1}),
        strided(conv_problem({3, 9, 50}, 16, 16, {4, 3, 2}), {3, 1, 4}), conv_problem({6, 5, 4}, 64, 48, {3, 3, 3}),
        conv_problem({9, 10, 11}, 3, 16, {3, 3, 3}), conv_problem({1, 16, 12}, 8, 8, {1, 3, 3}),
        conv_problem({1, 9, 9}, 4, 8, {1, 2, 2}), conv_problem({2, 2, 2}, 8, 16, {3, 3, 3}),
        conv_problem({2, 29, 13}, 16, 48, {2, 3, 3}), conv_problem({3, 2, 3}, 64, 128, {3, 3, 3})}) {
    const ConvPasses want = passes_of(*reference, problem);
    for (const char* kernels : {"winograd", "planes", "squares", "direct", "few", "onednn", "taps", "all_taps",
                                "winograd512", "planes512", "squares512", "direct512", "amx", "amx_winograd",
                                "winograd onednn direct", "onednn direct512 taps", "no such kernels"}) {
      INFO(problem.text() << ": " << kernels);
      const auto backend = cpu::make_choosing_backend(2);
      cpu::kernel_choices(*backend)->put(problem.text(), {kernels});
      const ConvPasses got = passes_of(*backend, problem);
      CHECK(relative_distance(got.y, want.y) < 1e-5);
      CHECK(relative_distance(got.dx, want.dx) < 1e-5);
      CHECK(relative_distance(got.dw, want.dw) < 1e-5);
      CHECK(relative_distance(got.db, want.db) < 1e-5);
    }
  }
}

TEST_CASE("kernel choice: all kernels compute the dense layer that the reference computes") {
  const auto reference = make_reference_backend();
  for (const auto& [rows, in, out] : {std::array<Index, 3>{3, 40, 19}, {300, 33, 16}}) {
    ConvProblem problem{ConvProblem::Kind::dense, {in, out}, rows, 2};
    const auto parsed = ConvProblem::parse(problem.text());
    REQUIRE(parsed.has_value());
    CHECK(parsed->kind == ConvProblem::Kind::dense);
    CHECK(parsed->text() == problem.text());
    const ConvPasses want = passes_of(*reference, problem);
    for (const Precision precision : {Precision::fp32, Precision::bf16})
      for (const char* kernels :
           {"plain", "packed", "onednn_bf16", "packed plain plain", "onednn_bf16 plain packed",
            "plain onednn_bf16 onednn_bf16", "skipping", "plain skipping512 skipping512", "no such kernels"}) {
        INFO(problem.text() << ": " << kernels);
        const auto backend = cpu::make_choosing_backend(2, precision);
        cpu::kernel_choices(*backend)->put(problem.text(), {kernels});
        const ConvPasses got = passes_of(*backend, problem);
        const double allowed = precision == Precision::bf16 ? 0x1p-7 : 1e-5;
        CHECK(relative_distance(got.y, want.y) < allowed);
        CHECK(relative_distance(got.dx, want.dx) < allowed);
        CHECK(relative_distance(got.dw, want.dw) < allowed);
        CHECK(relative_distance(got.db, want.db) < allowed);
      }
  }
}

TEST_CASE("kernel choice: a backend in bf16 has the convolutions of both precisions, by pass") {
  const auto reference = make_reference_backend();
  const ConvProblem problem = conv_problem({1, 9, 9}, 8, 16, {1, 3, 3});
  const ConvPasses want = passes_of(*reference, problem);
  for (const char* kernels : {"onednn_bf16", "onednn_bf16 winograd onednn_bf16", "direct onednn_bf16 onednn"}) {
    INFO(kernels);
    const auto backend = cpu::make_choosing_backend(2, Precision::bf16);
    cpu::kernel_choices(*backend)->put(problem.text(), {kernels});
    const ConvPasses got = passes_of(*backend, problem);
    CHECK(relative_distance(got.y, want.y) < 0x1p-7);
    CHECK(relative_distance(got.dx, want.dx) < 0x1p-7);
    CHECK(relative_distance(got.dw, want.dw) < 0x1p-7);
    CHECK(relative_distance(got.db, want.db) < 0x1p-7);
  }
}

TEST_CASE("kernel choice: open problems are timed, and what was chosen is no slower than the fixed kernels") {
  const auto backend = cpu::make_choosing_backend(2);
  KernelChoices& choices = *cpu::kernel_choices(*backend);
  const ConvProblem problem = conv_problem({8, 8, 8}, 8, 16, {3, 3, 3});
  backend->conv(problem.geometry, problem.rows);
  CHECK(choices.open() == std::set<std::string>{problem.text()});
  // A busy machine may not tell.
  const KernelChoice choice = cpu::time_kernels(*backend, problem).value_or(KernelChoice{});
  CHECK(choice.chosen <= choice.fixed);
  choices.put(problem.text(), choice);
  CHECK(choices.open().empty());

  ConvProblem with_norm = problem, pooled = conv_problem({1, 1, 43}, 3, 8, {1, 1, 4});
  with_norm.kind = ConvProblem::Kind::norm_conv;
  pooled.kind = ConvProblem::Kind::conv_pool;
  pooled.geometry.pad_before = pooled.geometry.pad_after = {0, 0, 0};
  pooled.window = {1, 1, 4};
  ConvProblem in_planes = conv_problem({1, 12, 10}, 3, 8, {1, 3, 3});  // which not all kernels serve
  in_planes.kind = ConvProblem::Kind::conv_pool;
  in_planes.window = {1, 2, 2};
  for (const ConvProblem& other : {with_norm, pooled, in_planes}) {
    const KernelChoice found = cpu::time_kernels(*backend, other).value_or(KernelChoice{});
    CHECK(found.chosen <= found.fixed);
  }
  ConvProblem of_others = problem;
  of_others.threads = 3;
  CHECK_FALSE(cpu::time_kernels(*backend, of_others).has_value());
  CHECK(cpu::kernel_choices(*make_cpu_backend(2)) == nullptr);
}

TEST_CASE("kernel choice: where nothing is timed, the kernels that are named are those that serve") {
  const auto backend = cpu::make_choosing_backend(2);
  ConvProblem small = conv_problem({1, 9, 9}, 3, 16, {1, 3, 3});  // too many positions for the kernels of few
  small.rows = 1;
  CHECK_FALSE(cpu::worth_timing(small));
  ConvProblem dense = conv_problem({1, 1, 1}, 128, 19, {1, 1, 1});
  dense.kind = ConvProblem::Kind::dense;
  for (const ConvProblem& problem : {small, dense}) {
    const KernelChoice choice = cpu::time_kernels(*backend, problem).value_or(KernelChoice{});
    INFO(problem.text() << ": " << choice.kernels);
    CHECK_FALSE(choice.kernels.empty());
    CHECK(choice.kernels != "few");
    CHECK(choice.fixed == 0);
    CHECK(cpu::has_kernels(*backend, problem, choice));
  }
}

TEST_CASE("kernel choice: what another processor has is known not to be here") {
  const auto backend = cpu::make_choosing_backend(2);
  const ConvProblem problem = conv_problem({1, 16, 16}, 16, 16, {1, 3, 3});
  // "direct" is not offered with AVX-512, but a run that began with AVX2 has it there, too.
  for (const char* there : {"", "onednn", "taps onednn onednn", "direct", "winograd direct onednn"})
    CHECK(cpu::has_kernels(*backend, problem, {there}));
  for (const char* missing : {"nosuch", "onednn nosuch onednn", "avx512"})  // the last is one of pooling
    CHECK_FALSE(cpu::has_kernels(*backend, problem, {missing}));
  CHECK_FALSE(cpu::has_kernels(*make_reference_backend(), problem, {"onednn"}));
}

TEST_CASE("kernel choice: a trial has work for every thread") {
  const auto rows = [](const ConvProblem& of, int threads) {
    ConvProblem problem = of;
    problem.rows = 512, problem.threads = threads;
    return cpu::rows_in_trial(problem);
  };
  // The Neuron Inverter's second convolution: a row is one plane, which one thread has.
  const ConvProblem line = conv_problem({1, 1, 399}, 30, 90, {1, 1, 4});
  const ConvProblem image = conv_problem({1, 16, 16}, 64, 64, {1, 3, 3});
  for (const int threads : {1, 2, 3, 48, 64, 200}) {
    CAPTURE(threads);
    for (const ConvProblem& problem : {line, image}) {
      CHECK(rows(problem, threads) >= threads);
      CHECK((rows(problem, threads) % threads == 0 || rows(problem, threads) == 512));
      CHECK(rows(problem, threads) <= 512);
    }
  }
  CHECK(rows(line, 1000) == 512);  // all that there are
  // However long a row takes, threads cannot share it.
  CHECK(rows(conv_problem({1, 4, 4}, 2048, 2048, {1, 3, 3}), 64) == 64);
  ConvProblem pooled = conv_problem({1, 1, 20000}, 30, 90, {1, 1, 4});
  pooled.kind = ConvProblem::Kind::conv_pool;
  CHECK(rows(pooled, 64) == 64);
  // Threads share the planes of a cube.
  CHECK(rows(conv_problem({128, 128, 128}, 16, 16, {3, 3, 3}), 16) == 1);
  CHECK(rows(conv_problem({8, 64, 64}, 64, 64, {3, 3, 3}), 64) < 64);
}

TEST_CASE("kernel choice: a problem's text has the pooling of planes, and one without is read as before") {
  ConvProblem pooled = conv_problem({1, 12, 10}, 3, 8, {1, 3, 3});
  pooled.kind = ConvProblem::Kind::conv_pool;
  for (const Extent& window : {Extent{1, 1, 2}, Extent{1, 2, 2}, Extent{1, 3, 1}}) {
    pooled.window = window;
    const std::optional<ConvProblem> read = ConvProblem::parse(pooled.text());
    REQUIRE(read.has_value());
    CHECK(read->window == window);
    CHECK(read->text() == pooled.text());
  }
  pooled.window = {1, 1, 2};
  CHECK_FALSE(ConvProblem::parse(pooled.text() + " 1").has_value());
  CHECK_FALSE(ConvProblem::parse(pooled.text() + " 1 0").has_value());
}

TEST_CASE("kernel choice: a convolution that others run in one pass is still asked for where it runs by itself") {
  const auto backend = cpu::make_choosing_backend(2);
  KernelChoices& choices = *cpu::kernel_choices(*backend);
  const ConvProblem problem = conv_problem({1, 12, 10}, 8, 8, {1, 3, 3});
  PoolGeometry pool{PoolKind::max, 8, problem.geometry.out()};
  pool.window = pool.stride = {1, 2, 2};
  for (int i = 0; i < 2; ++i) backend->conv(problem.geometry, problem.rows);          // both layers of a network...
  REQUIRE(backend->conv_pool_relu(problem.geometry, pool, problem.rows) != nullptr);  // ...of which one is fused
  CHECK(choices.asked().size() == 2);
  CHECK(choices.asked().contains(problem.text()));

  choices.forget_questions();
  NormSettings norm{8};
  norm.in = problem.geometry.in;
  backend->conv(problem.geometry, problem.rows);
  REQUIRE(backend->norm_conv(norm, problem.geometry, problem.rows) != nullptr);
  CHECK(choices.asked().size() == 1);
  CHECK_FALSE(choices.asked().contains(problem.text()));
}

TEST_CASE(
    "kernel choice: a convolution apart from its batch norm is a question only where that choice is known already") {
  const auto backend = cpu::make_choosing_backend(2);
  KernelChoices& choices = *cpu::kernel_choices(*backend);
  ConvProblem problem = conv_problem({1, 16, 16}, 16, 16, {1, 3, 3});
  NormSettings norm{16};
  norm.in = problem.geometry.in;
  const auto ask = [&] {
    choices.forget_questions();
    backend->conv(problem.geometry, problem.rows);
    REQUIRE(backend->norm_conv(norm, problem.geometry, problem.rows) != nullptr);
  };
  ask();  // as when a run begins; so a run that continues asks before it takes up what was chosen then
  problem.kind = ConvProblem::Kind::norm_conv;
  choices.put(problem.text(), {"apart", 2, 1});
  CHECK(choices.open().empty());
  ask();
  CHECK(choices.open().size() == 1);
}

TEST_CASE("kernel file: the same choices are read back, on the same machine alone") {
  const OwnFile own;
  CHECK(KernelFile(own.path).keep(two_choices(), "one").empty());
  const KernelFile again(own.path);
  CHECK(again.ignored().empty());
  KernelChoices read, of_another;
  again.fill(read, "one");
  again.fill(of_another, "another");
  CHECK(read.text() == two_choices().text());
  CHECK(of_another.all().empty());
  CHECK(KernelFile(own.path).keep(two_choices(), "another").empty());  // the first machine's stay
  KernelChoices still;
  KernelFile(own.path).fill(still, "one");
  CHECK(still.text() == read.text());
}

TEST_CASE("kernel file: of two runs at the same time each keeps what it chose") {
  const OwnFile own;
  KernelFile one(own.path), other(own.path);  // both read it before either has timed anything
  KernelChoices of_one, of_other;
  of_one.put(conv_problem({1, 8, 8}, 8, 8, {1, 3, 3}).text(), {"direct", 2, 1});
  of_other.put(conv_problem({1, 9, 9}, 8, 8, {1, 3, 3}).text(), {"direct", 2, 1});
  CHECK(one.keep(of_one, "one").empty());
  CHECK(other.keep(of_other, "one").empty());
  CHECK(one.keep(of_one, "another").empty());
  KernelChoices found;
  KernelFile(own.path).fill(found, "one");
  CHECK(found.all().size() == 2);
}

TEST_CASE("kernel file: a damaged one is replaced, one of other contents or of another user stays") {
  const OwnFile own;
  const auto all_of = [&] {
    KernelChoices found;
    KernelFile(own.path).fill(found, "one");
    return found.all().size();
  };
  CHECK(KernelFile(own.path).keep(two_choices(), "one").empty());
  own.replace("direct", "onednn");
  CHECK(KernelFile(own.path).ignored().find("damaged") != std::string::npos);
  CHECK(all_of() == 0);
  CHECK(KernelFile(own.path).keep(two_choices(), "one").empty());
  CHECK(all_of() == 2);

  std::ofstream(own.path) << "";  // as a full disk leaves it
  CHECK(KernelFile(own.path).keep(two_choices(), "one").empty());
  CHECK(all_of() == 2);

  std::ofstream(own.path) << "someone's notes\n";
  KernelFile notes(own.path);
  CHECK(notes.ignored().find("no file of kernels") != std::string::npos);
  CHECK_FALSE(notes.keep(two_choices(), "one").empty());
  CHECK(read_file(own.path) == "someone's notes\n");

  std::filesystem::remove(own.path);
  CHECK(KernelFile(own.path).keep(two_choices(), "one").empty());
  if (::geteuid() == 0) {
    REQUIRE(::chown(own.path.c_str(), 1, 1) == 0);
    KernelFile foreign(own.path);
    CHECK(foreign.ignored().find("is another user's") != std::string::npos);
    CHECK_FALSE(foreign.keep(two_choices(), "one").empty());
    CHECK(all_of() == 0);
  }
  std::filesystem::rename(own.path, own.path + ".there");
  std::filesystem::create_symlink(own.path + ".there", own.path);
  CHECK(KernelFile(own.path).ignored().find("is a link") != std::string::npos);
  std::filesystem::remove(own.path);
  std::filesystem::create_directory(own.path);
  CHECK(KernelFile(own.path).ignored().find("is no file") != std::string::npos);
  CHECK_FALSE(KernelFile(own.path).keep(two_choices(), "one").empty());
  std::filesystem::remove(own.path);
  std::filesystem::rename(own.path + ".there", own.path);
  CHECK_FALSE(KernelFile(own.folder.path() + "/cache/kernels.txt/below").keep(two_choices(), "one").empty());
  CHECK_FALSE(KernelFile("").keep(two_choices(), "one").empty());
}

}  // namespace mrmf::test
