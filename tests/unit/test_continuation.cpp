// What a run may be resumed from, what it remembers of itself, and the signals that stop it.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "src/run/checkpoint.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/run/signals.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

RunStart start() {
  RunStart made{{}, 96, 2};
  made.config.run.folder = "runs/a";
  made.config.data.shards = 4;
  made.config.method.coarse.batch = 32;
  made.config.method.stages.resize(1);
  made.config.method.stages[0].coarse.batch = 8;
  return made;
}

std::string refusal(const RunStart& was, const RunStart& is) {
  return message<ConfigError>([&] { require_continuable(was, is); });
}

// The number of the signal that ends a process which gets `first` and, so many seconds later, `second`; 0: none does.
// Where a busy machine has let more than `most` seconds pass, it begins anew.
int fatal_signal(int first, int second, double seconds, double most = 1e9) {
  constexpr int late = 99;
  for (;;) {
    const pid_t child = fork();
    if (child == 0) {
      const StopSignals signals;
      const Timer since;
      std::raise(first);
      usleep(static_cast<useconds_t>(seconds * 1e6));
      if (since.seconds() > most) _exit(late);
      std::raise(second);
      _exit(signals.received() == first ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == late) continue;
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
}

}  // namespace

TEST_CASE("continuation: the same run, and one elsewhere on the machine, continue") {
  RunStart is = start();
  CHECK(refusal(start(), is).empty());
  is.config.run.folder = "runs/b";
  is.config.run.threads = 7;
  is.config.run.checkpoint.epochs = 3;
  is.config.data.load = LoadRule::stream;
  CHECK(refusal(start(), is).empty());
}

TEST_CASE("continuation: other ranks and other grids for each resolution, with the same mini-batches") {
  RunStart was = start();
  was.config.method.name = MethodName::progressive;
  was.config.method.resolutions = {{1, 1, 2}, {1, 1, 1}};
  was.config.method.axes = 1;
  was.config.method.stages.clear();
  was.config.run.grid = {{1, 1, 1}, {1, 1, 2}};
  was.config.training.batch = 32;
  was.config.method.coarse.batch = 16;  // two ranks, then one group of both
  RunStart is = was;
  is.ranks = 4;
  is.config.run.grid = {{1, 1, 4}, {1, 1, 2}};
  is.config.method.coarse.batch = 32;
  CHECK(refusal(was, is).find(
            "where stage 2 (finetune, resolution [1]) has mini-batches of 32 from 4 shards of the data, "
            "and here of 64 from 4: keep data.shards") != std::string::npos);
  is.config.training.batch = 16;
  CHECK(refusal(was, is).empty());
  is.config.run.grid = {{1, 1, 2}};  // one for all
  is.config.method.coarse.batch = 16;
  CHECK(refusal(was, is).empty());
  was.config.data.shards = is.config.data.shards = 0;  // as many as there are groups
  CHECK(refusal(was, is).find("from 1 shard of the data, and here of 32 from 2") != std::string::npos);
  is.config.data.shards = was.config.data.shards = 4;
  is.config.training.seed = 9;
  CHECK(refusal(was, is).find("training.seed is 1, and here it is 9") != std::string::npos);
}

TEST_CASE("continuation: files that hold the same numbers continue under other names, and others do not") {
  RunStart was = start(), is = start();
  was.config.data.train = {.files = {"a.h5", "b.h5"}, .samples = "x", .labels = "y"};
  was.config.data.validation = was.config.data.train;
  was.data = {{100, 200}, {5, 6}, {{0, "x", {48, 3}, 1}, {1, "x", {48, 3}, 2}, {1, "y", {48}, 3}}};
  is.config.data = was.config.data;
  is.data = was.data;
  CHECK(refusal(was, is).empty());
  CHECK(data_news(was, is).empty());
  is.config.data.train.files = is.config.data.validation.files = {"/new/a.h5", "b.h5"};
  is.data->bytes[0] = 90;
  CHECK(refusal(was, is).empty());
  CHECK(data_news(was, is).find("data: /new/a.h5 in place of a.h5 (written ") == 0);
  CHECK(data_news(was, is).find(", 90 bytes, and 100 then); as far as") != std::string::npos);

  RunStart old = was;  // of a version that kept no records: by names
  old.data.reset();
  CHECK(refusal(old, is).find("of other data files: a.h5 is gone, /new/a.h5 is new") != std::string::npos);
  CHECK(data_news(old, is).empty());

  is.data->arrays[1].sum = 9;
  const auto differ = [&](DataContents contents) {
    return message<DataError>([&] { require_continuable(was, is, Epochs::same, contents); });
  };
  CHECK(differ(DataContents::same)
            .find("run.folder: runs/a holds an unfinished run on other numbers: data set 'x' of b.h5 "
                  "holds other numbers (written ") == 0);
  CHECK(differ(DataContents::any).empty());
  CHECK(data_news(was, is).find("warning: the run continues with other numbers") == 0);
  is.data->arrays[2].shape = {47};
  CHECK(differ(DataContents::same).find(", and 1 more; restore the files") != std::string::npos);

  is = was;  // in another order
  std::swap(is.config.data.train.files[0], is.config.data.train.files[1]);
  CHECK(refusal(was, is).find("data.files ([\"a.h5\", \"b.h5\"] then, [\"b.h5\", \"a.h5\"] now)") != std::string::npos);
}

TEST_CASE("continuation: a record of the data reads back, and one by another rule says nothing") {
  const DataRecord record{{100, 1}, {5, -6}, {{1, "x", {48, 3}, 0xfedcba9876543210}}};
  CHECK(data_record_from_json(to_json(record), "here") == record);
  std::string text = to_json(record);
  text.replace(text.find("\"rule\":2"), 8, "\"rule\":1");
  CHECK(data_record_from_json(text, "here") == DataRecord{});
  for (const std::string bad :
       {"{}", "[", R"({"rule":2,"bytes":[1],"modified":[],"arrays":[]})",
        R"({"rule":2,"bytes":[],"modified":[],"arrays":[{"file":0,"name":"x","shape":[],"sum":"0"}]})"})
    CHECK(message<DataError>([&] { data_record_from_json(bad, "here"); }).find("here: ") == 0);
}

TEST_CASE("continuation: another configuration is refused with key, old and new value") {
  RunStart is = start();
  is.config.training.seed = 5;
  CHECK(refusal(start(), is) ==
        "run.folder: runs/a holds an unfinished run where training.seed is 1, and here it is 5; set it back, give "
        "--overwrite to begin anew, or take another folder with --set run.folder=...");
  is.config.method.target = 0.25;
  const std::string two = refusal(start(), is);
  CAPTURE(two);
  for (const char* part : {"where 2 keys differ: ", "training.seed (1 then, 5 now)",
                           "target.validation_loss (not set then, 0.25 now)", "; set them back, give --overwrite"})
    CHECK(two.find(part) != std::string::npos);
  is.config.training.clip_norm = 2;
  is.config.training.batch = 64;  // as it is written, not that of all ranks
  const std::string four = refusal(start(), is);
  CHECK(four.find("where 4 keys differ: ") != std::string::npos);
  CHECK(four.find("training.batch (512 then, 64 now)") != std::string::npos);
  CHECK(four.find(" and 1 more; set them back") != std::string::npos);
  is = start();
  is.config.method.target = 0.25;
  CHECK(refusal(start(), is).find("target.validation_loss is not set, and here it is 0.25;") != std::string::npos);
  is = start();
  is.samples = 97;
  CHECK(refusal(start(), is).find("on 96 training samples, and the data now has 97;") != std::string::npos);
}

TEST_CASE("continuation: more epochs alone lead to --continue") {
  RunStart was = start();
  was.config.training.epochs = 20;
  RunStart is = was;
  is.config.training.epochs = 30;
  CHECK(
      refusal(was, is) ==
      "run.folder: runs/a holds an unfinished run where training.epochs is 20, and here it is 30; for more epochs of "
      "its last phase, mrmf train --continue runs/a --set training.epochs=30; otherwise set it back, give --overwrite "
      "to begin anew, or take another folder with --set run.folder=...");
  is.config.training.seed = 5;
  CHECK(refusal(was, is).find("--continue") == std::string::npos);
  is = was;
  is.config.training.epochs = 10;
  CHECK(refusal(was, is).find("--continue") == std::string::npos);
}

TEST_CASE("continuation: more epochs of a run advise what train --continue takes") {
  const auto refused = [](const RunStart& was, const RunStart& is) {
    return message<ConfigError>([&] { require_continuable(was, is, Epochs::more); });
  };
  RunStart is = start();
  is.config.training.seed = 5;
  CHECK(refused(start(), is) ==
        "run.folder: runs/a holds a run where training.seed is 1, and here it is 5; set it back, or begin a new run "
        "with model.start = \"runs/a\" in another folder");
  is = start();
  is.config.data.train.files.push_back("d.h5");
  CHECK(refused(start(), is).find("that are there now), or begin a new run with model.start") != std::string::npos);
  is = start();
  is.samples = 97;
  CHECK(refused(start(), is).find("--overwrite") == std::string::npos);
}

TEST_CASE("continuation: the best epoch is the best of all that are known") {
  std::vector<EpochRecord> epochs(3);
  epochs[0].validation_loss = 0.5, epochs[1].validation_loss = 0.7, epochs[2].validation_loss = 0.6;
  CHECK(is_best(epochs, 1, Monitor::loss));
  CHECK_FALSE(is_best(epochs, 3, Monitor::loss));  // the best since an earlier version's checkpoint
  for (int i = 0; i < 3; ++i) epochs[static_cast<std::size_t>(i)].metric = MetricValue{Metric::accuracy, 0.1 * i};
  CHECK(is_best(epochs, 3, Monitor::metric));
  std::vector<EpochRecord> unscored = epochs;
  unscored[0].validation_loss = kNoScore;
  CHECK_FALSE(is_best(unscored, 1, Monitor::loss));
  CHECK_FALSE(is_best(epochs, 2, Monitor::metric));
}

TEST_CASE("continuation: files that are new or gone are named") {
  RunStart was = start();
  was.config.data.train.files = {"a.h5", "b.h5"};
  was.config.data.validation.files = {"c.h5"};
  RunStart is = was;
  is.config.data.train.files.push_back("d.h5");
  is.config.data.normalise_samples = {.mean_std = true, .mean = {2}, .std = {1}};
  CHECK(refusal(was, is).find("runs/a holds an unfinished run of other data files: d.h5 is new; name the same files "
                              "again") != std::string::npos);
  is.config.data.train.files = {"a.h5"};
  is.config.data.validation.files = {"c.h5", "e.h5", "f.h5", "g.h5", "h.h5", "i.h5"};
  CHECK(refusal(was, is).find("files: b.h5 is gone, e.h5, f.h5, g.h5 and 2 more are new;") != std::string::npos);
  is.config.data.train.files = {"c.h5", "b.h5"};
  is.config.data.validation.files = {"a.h5"};
  is.config.data.normalise_samples = {};
  CHECK(refusal(was, is).find("data.files ([\"a.h5\", \"b.h5\"] then, [\"c.h5\", \"b.h5\"] now)") != std::string::npos);
}

TEST_CASE("continuation: numbers measured over other training data say that the data changed") {
  RunStart was = start();
  was.config.data.normalise_samples = {.mean_std = true, .mean = {2}, .std = {1}};
  RunStart is = was;
  is.config.data.normalise_samples.mean = {2.5};
  CHECK(refusal(was, is).find("runs/a holds an unfinished run on other training data (data.normalise.sample_mean is "
                              "[2], and here it is [2.5]; unless you set it, it is measured over the training "
                              "samples); set it back, ") != std::string::npos);
  was.config.data.normalise_samples.std = is.config.data.normalise_samples.std = std::vector<double>(40, 1);
  was.config.data.normalise_samples.mean.assign(40, 2);
  is.config.data.normalise_samples.mean.assign(40, 2.5);
  CHECK(refusal(was, is).find("(data.normalise.sample_mean is another than here; unless") != std::string::npos);
  is.samples = 97;
  CHECK(refusal(was, is).find("on other training data: 96 samples then, 97 now (data") != std::string::npos);
  is.config.training.seed = 5;
  CHECK(refusal(was, is).find("where training.seed is 1, and here it is 5; ") != std::string::npos);  // the user's own
}

TEST_CASE("continuation: another number of ranks continues where the mini-batches stay the same") {
  RunStart is = start();
  is.ranks = 4;
  CHECK(
      refusal(start(), is) ==
      "run.folder: runs/a holds an unfinished run that was started on 2 ranks, and now there are 4: start it on 2, or "
      "keep its mini-batches with data.shards = 4 and every batch times ranks as it was; or give --overwrite to begin "
      "anew, or take another folder with --set run.folder=...");
  is.config.training.batch = 256;
  is.config.method.coarse.batch = 16;
  is.config.method.stages[0].coarse.batch = 4;
  CHECK(refusal(start(), is).empty());
  RunStart was = start();
  was.config.data.shards = is.config.data.shards = 0;  // one per rank: other samples in a mini-batch
  CHECK(refusal(was, is).find("started on 2 ranks, and now there are 4: start it on 2 (data.shards was not set, so its "
                              "data is in 2 shards, which 4 ranks cannot share); or give") != std::string::npos);
  was = start();
  was.config.training.global_batch_norm = is.config.training.global_batch_norm = false;
  CHECK(refusal(was, is).find("every rank has its own statistics, and this is a run on 4; continue on 2 ranks") !=
        std::string::npos);
}

TEST_CASE("continuation: what is advised for another number of ranks is taken") {
  RunStart was = start();
  was.config.data.shards = 0;
  was.config.method.stages.clear();
  RunStart is = was;
  is.ranks = 1;
  CHECK(
      refusal(was, is).find("that was started on 2 ranks, and now there is 1: start it on 2, or keep its mini-batches "
                            "with --set data.shards=2 --set training.batch=1024 --set method.coarse.batch=64; or "
                            "give") != std::string::npos);
  is.config.training.seed = 5;
  CHECK(refusal(was, is).find("; besides, training.seed is 1, and here it is 5: set it back; or give") !=
        std::string::npos);
  is.config.training.seed = was.config.training.seed;
  is.config.data.shards = 2;
  is.config.training.batch = 1024;
  is.config.method.coarse.batch = 64;
  CHECK(refusal(was, is).empty());
  was.config.data.shards = is.config.data.shards = 2;
  is.ranks = 3;
  CHECK(refusal(was, is).find("now there are 3: start it on 2, or another number that divides data.shards = 2; or") !=
        std::string::npos);
  is.ranks = 2;  // as many ranks, but each sample is shared by two of them
  is.config.run.grid = {{1, 1, 2}};
  CHECK(refusal(was, is).empty());
  is.config.training.batch = 512;
  CHECK(refusal(was, is).find("that was started on 2 groups of ranks (run.grid), and now there is 1: make it 2 again, "
                              "or keep its mini-batches with --set training.batch=1024; or give") != std::string::npos);
}

TEST_CASE("continuation: a state comes back from its text as the same bits") {
  Phase phase;
  phase.optimizer.rule = RateRule::plateau;
  TrainState state(phase);
  CHECK(train_state_from_json(to_json(state), phase, "here").rate.state() == state.rate.state());  // best: infinity
  int number = 0;
  for (const double loss : {0.1, 0.3, 1.0 / 3}) {
    state.rate.epoch_done(loss);
    state.stop.update(loss, loss);
    state.best.update(++number, loss / 3);
    EpochRecord epoch{.role = Role::coarse, .train_loss = loss, .validation_loss = loss};
    state.history.record.add(epoch);
    state.history.epochs.push_back(epoch);
  }
  state.step = 5;
  state.loss = 1.0 / 7;
  state.time = {0.1, 0.2, 0.3, 0.4};
  state.epoch_start = 1e9 / 3;
  state.total_seconds = 2e9 / 3;
  const TrainState back = train_state_from_json(to_json(state), phase, "here");
  CHECK(to_json(back) == to_json(state));
  CHECK(back.rate.state() == state.rate.state());
  CHECK(back.stop.state() == state.stop.state());
  CHECK(back.stop.state().unimproved == 2);
  CHECK(back.best == BestEpoch{1, 0.1 / 3});
  CHECK(back.history.epochs == state.history.epochs);
  CHECK(back.history.record == state.history.record);
  CHECK(back.loss == state.loss);
  CHECK(back.step == 5);
  CHECK(back.epoch_start == state.epoch_start);
  CHECK(message<DataError>([&] { train_state_from_json("{}", phase, "a/phase-1.h5"); }).starts_with("a/phase-1.h5: "));
}

TEST_CASE("continuation: a position is said in words") {
  Phase phase;
  phase.role = Role::coarse;
  TrainState state(phase);
  state.stop.update(1, 1);
  CHECK(position_text(phase, state) == "in stage 1 (coarse, resolution [1]), after 1 epoch");
  state.step = 3;
  CHECK(position_text(phase, state) == "in stage 1 (coarse, resolution [1]), epoch 2, after 3 steps");
  state.history.record.reason = "epochs";
  CHECK(position_text(phase, state) == "after stage 1 (coarse, resolution [1])");
}

TEST_CASE("signals: a stopped run ends a program that catches exceptions in order") {
  try {
    throw Stopped{SIGINT};
  } catch (const std::exception& error) {
    CHECK(std::string(error.what()) == "stopped by a signal; the same call continues the run");
  }
}

TEST_CASE("signals: the first is remembered, its echo is ignored, and a later one ends the process at once") {
  CHECK(fatal_signal(SIGUSR1, SIGTERM, 0, 0.8) == 0);
  CHECK(fatal_signal(SIGUSR1, SIGTERM, 1.3) == SIGTERM);  // an echo comes within a second
  CHECK(fatal_signal(SIGINT, SIGTERM, 0.3, 0.8) == 0);
  CHECK(fatal_signal(SIGINT, SIGINT, 0.01, 0.06) == 0);
  CHECK(fatal_signal(SIGINT, SIGINT, 0.3) == SIGINT);  // a user's second Ctrl-C
}
