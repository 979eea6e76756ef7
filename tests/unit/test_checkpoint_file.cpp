// The file of a checkpoint: what goes in comes out, and what is damaged is said to be.
#include <doctest/doctest.h>

#include <cstdio>

#include "src/run/checkpoint.hpp"
#include "src/training/model_and_optimizer.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/size_limit.hpp"
#include "tests/unit/support/small_model.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace mrmf;
using namespace mrmf::test;

namespace {

struct Saved {
  TemporaryFolder folder;
  std::string path = folder.file("phase-1.h5");
  std::unique_ptr<Backend> backend = make_reference_backend();
  Comm team = Comm::self();

  ModelState model_state(std::uint64_t seed, OptimizerKind optimizer = OptimizerKind::adam, Index length = 20) {
    OptimizerSettings settings;
    settings.name = optimizer;
    return {*backend, small_model(length, seed), settings, {1, 1, 1}};
  }
  // All numbers differ from those of a new model.
  ModelState trained(OptimizerKind optimizer) {
    ModelState made = model_state(1, optimizer);
    train_a_little(*backend, made.model, 5);
    std::uint64_t key = 7;
    for (const Span moment : made.optimizer.moments())
      for (float& value : moment) value = static_cast<float>(Rng(++key).normal());
    return made;
  }
  void save(ModelState& from) {
    save_checkpoint(*backend, path, from.arrays(), {"{\"a\":1}", "[run]\n"}, StateRows::one, team);
  }
  std::string why_not() {
    ModelState into = model_state(2);
    return message<DataError>([&] {
      read_checkpoint_texts(path);
      load_checkpoint(*backend, path, into.arrays(), StateRows::one, team);
    });
  }
};

// Gaps between an arena's layers are zero in every model, and in no file: moments are compared where parameters are.
std::vector<float> used(const ModelState& model_state, ConstSpan arena) {
  std::vector<float> values;
  for (const LayerEntry& entry : model_state.model.network().entries())
    for (Index i = entry.params.first; i < entry.params.end(); ++i)
      values.push_back(arena[static_cast<std::size_t>(i)]);
  return values;
}

}  // namespace

TEST_CASE("checkpoint file: every number comes back as the same bits") {
  for (const OptimizerKind optimizer : {OptimizerKind::sgd, OptimizerKind::adam}) {
    CAPTURE(to_string(optimizer));
    Saved saved;
    ModelState from = saved.trained(optimizer), into = saved.model_state(2, optimizer);
    saved.save(from);
    CHECK(read_checkpoint_texts(saved.path).progress == "{\"a\":1}");
    CHECK(read_checkpoint_texts(saved.path).config == "[run]\n");
    load_checkpoint(*saved.backend, saved.path, into.arrays(), StateRows::one, saved.team);
    CHECK(copy(into.model.params()) == copy(from.model.params()));
    CHECK(copy(into.model.state()) == copy(from.model.state()));
    for (std::size_t i = 0; i < from.optimizer.moments().size(); ++i)
      CHECK(used(into, into.optimizer.moments()[i]) == used(from, from.optimizer.moments()[i]));
    CHECK_FALSE(std::filesystem::exists(saved.path + ".partial"));
  }
}

TEST_CASE("checkpoint file: a torn one is an error, wherever it was torn") {
  Saved saved;
  ModelState from = saved.trained(OptimizerKind::adam);
  saved.save(from);
  const std::string whole = read_bytes(saved.path);
  for (std::size_t part = 0; part < 8; ++part) {
    CAPTURE(part);
    write_bytes(saved.path, whole.substr(0, whole.size() * part / 8));
    CHECK(saved.why_not().find("begin anew with --overwrite") != std::string::npos);
  }
}

TEST_CASE("checkpoint file: a flipped bit anywhere is an error") {
  Saved saved;
  ModelState from = saved.trained(OptimizerKind::adam);
  saved.save(from);
  const std::string whole = read_bytes(saved.path);
  for (std::size_t at = 0; at < whole.size(); at += whole.size() / 50) {
    CAPTURE(at);
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 1);
    write_bytes(saved.path, broken);
    CHECK(saved.why_not().find("it does not end with the checksum of what it holds") != std::string::npos);
  }
}

TEST_CASE("checkpoint file: a foreign one is an error, one of another format names both") {
  Saved saved;
  write_floats(saved.path, "x", {3}, {1, 2, 3});
  CHECK(saved.why_not().find("no checkpoint") != std::string::npos);
  ModelState from = saved.model_state(1);
  saved.save(from);
  std::string bytes = read_bytes(saved.path);
  bytes.resize(bytes.size() - 16);
  bytes.replace(bytes.find("mrmf checkpoint 1"), 17, "mrmf checkpoint 7");
  char sum[17];
  std::snprintf(sum, sizeof sum, "%016llx", static_cast<unsigned long long>(XXH3_64bits(bytes.data(), bytes.size())));
  write_bytes(saved.path, bytes + sum);
  CHECK(saved.why_not().find("its format is \"mrmf checkpoint 7\" and this mrmf reads \"mrmf checkpoint 1\"") !=
        std::string::npos);
}

TEST_CASE("checkpoint file: one of another network is an error that names the array") {
  Saved saved;
  ModelState longer = saved.model_state(1, OptimizerKind::adam, 28);
  saved.save(longer);
  CHECK(saved.why_not().find("data set parameters/batch_norm2/gamma has another shape") != std::string::npos);
}

TEST_CASE("checkpoint file: what one of the two lacks is an error, not a default") {
  Saved saved;
  const auto refusal = [&](OptimizerKind from, OptimizerKind into) {
    ModelState trained = saved.trained(from), fresh = saved.model_state(2, into);
    saved.save(trained);
    return message<DataError>(
        [&] { load_checkpoint(*saved.backend, saved.path, fresh.arrays(), StateRows::one, saved.team); });
  };
  CHECK(refusal(OptimizerKind::sgd, OptimizerKind::adam).find("no data set 'moments/2/") != std::string::npos);
  CHECK(refusal(OptimizerKind::adam, OptimizerKind::sgd)
            .find("data set moments/2/batch_norm1/beta is not of this model and its optimizer") != std::string::npos);
}

TEST_CASE("checkpoint file: one that cannot be written leaves the one before as it was") {
  Saved saved;
  ModelState from = saved.trained(OptimizerKind::adam), other = saved.model_state(3);
  saved.save(from);
  const std::string whole = read_bytes(saved.path);
  for (const std::size_t bytes : {std::size_t{0}, whole.size() / 2, whole.size() - 1}) {
    const test::SizeLimit full(bytes);
    CHECK(message<DataError>([&] { saved.save(other); }).find(": File too large") != std::string::npos);
  }
  CHECK(read_bytes(saved.path) == whole);
}
