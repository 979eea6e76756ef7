// Every kind of mistake in a configuration, with the whole message a user sees.
#include <doctest/doctest.h>

#include "kernels/errors.hpp"
#include "src/config/config.hpp"
#include "tests/unit/support/config_text.hpp"

using namespace mrmf;

namespace {

// The message for kSmallest (6 lines) with `more` after it.
std::string error(const std::string& more, const std::vector<std::string>& overrides = {}) {
  try {
    parse_config(kSmallest + more, "c.toml", overrides);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

std::string layer_error(const std::string& entry) {
  const std::string text = std::string(kLayers) + "[[model.layers]]\n" + entry + "\n";
  try {
    parse_config(text, "c.toml", {});
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("unknown keys name file, line and the nearest key") {
  CHECK(error("[training]\nbacth = 3\n") == "c.toml:8: unknown key 'training.bacth'; did you mean 'training.batch'?");
  CHECK(error("[trainnig]\nbatch = 3\n") == "c.toml:7: unknown key 'trainnig'; did you mean 'training'?");
  CHECK(error("[method]\nstop = { caorse = { epochs = 3 } }\n") ==
        "c.toml:8: unknown key 'method.stop.caorse'; did you mean 'method.stop.coarse'?");
  CHECK(error("[method]\ncoarse = { epochs = 3 }\n") ==
        "c.toml:8: unknown key 'method.coarse.epochs'; did you mean 'method.stop.coarse.epochs'?");
  CHECK(error("[training]\nlearning_rate = 0.1\n") ==
        "c.toml:8: unknown key 'training.learning_rate'; did you mean 'training.optimizer.learning_rate'?");
  CHECK(error("[run]\nzebra = 1\n") ==
        "c.toml:8: unknown key 'run.zebra'; there are run.{backend, check_ranks, checkpoint, deterministic, device, "
        "folder, graphs, grid, plans, precision, ranks, ranks_share_gpu, resident, tensorboard, threads, timeout}");
  CHECK(error("[zebra]\n") ==
        "c.toml:7: unknown key 'zebra'; the sections are data, method, model, run, tournament, training");
  // The first mistake in the file is the one reported.
  CHECK(error("[training]\nzeed = 3\nbacth = 3\n") ==
        "c.toml:8: unknown key 'training.zeed'; did you mean 'training.seed'?");
}

TEST_CASE("names that other programs have for a key") {
  const auto meant = [](const std::string& key) {
    const std::string message = error("", {key + "=1"}), head = "'; did you mean '";
    const std::size_t at = message.find(head);
    return at == std::string::npos ? message : message.substr(at + head.size(), message.rfind("'?") - at - head.size());
  };
  for (const char* key : {"training.lr", "training.learning_rate", "training.optimizer.lr", "lr"})
    CHECK(meant(key) == "training.optimizer.learning_rate");
  CHECK(meant("method.coarse.lr") == "method.coarse.learning_rate");
  CHECK(meant("training.batch_size") == "training.batch");
  CHECK(meant("method.dense.batch_size") == "method.dense.batch");
  CHECK(meant("training.scheduler") == "training.optimizer.rule");
  CHECK(meant("training.optimizer.lr_scheduler") == "training.optimizer.rule");
  CHECK(meant("training.weight_decay") == "training.optimizer.weight_decay");
  for (const char* key : {"training.num_epochs", "run.max_epochs"}) CHECK(meant(key) == "training.epochs");
  for (const char* key : {"run.output", "output_dir"}) CHECK(meant(key) == "run.folder");
  CHECK(meant("model.output") == "model.outputs");  // a name like it, beside it
  for (const char* key : {"run.gpu", "training.device"}) CHECK(meant(key) == "run.device");
}

TEST_CASE("former keys are read where they change nothing, and refused where they would") {
  const std::string rest =
      " is no longer there: it lowered no loss; remove it, or use the version that docs/results/lab.md names";
  CHECK(error("[method]\ndilated = false\n") == "no error");
  CHECK(error("[method]\ndilated = true\n") == "c.toml:8: method.dilated = true" + rest);
  CHECK(error("", {"data.coarsening=average"}) == "no error");
  CHECK(error("", {"data.coarsening=stride"}) == "--set data.coarsening=stride: data.coarsening = \"stride\"" + rest);
  // Of a model that was trained so, it cannot be told what it computes.
  const std::string dilated = std::string(kSmallest) + "[method]\ndilated = true\n";
  CHECK_THROWS_WITH_AS(parse_config(dilated, "run/config.toml", {}, Writer::run), doctest::Contains("method.dilated"),
                       ConfigError);
  const std::string joined = std::string(kSmallest) + "[method]\njoin = true\n";
  CHECK_NOTHROW(parse_config(joined, "run/config.toml", {}, Writer::run));
}

TEST_CASE("wrong types") {
  CHECK(error("[training]\nbatch = \"many\"\n") ==
        "c.toml:8: training.batch is \"many\"; it must be an integer of at least 1 and at most 4194304");
  CHECK(error("[training]\nbatch = 1.5\n") ==
        "c.toml:8: training.batch is 1.5; it must be an integer of at least 1 and at most 4194304");
  CHECK(error("[training]\noptimizer = \"adam\"\n") ==
        "c.toml:8: training.optimizer is \"adam\"; it must be a table of settings; write training.optimizer.name = "
        "\"adam\"");
  CHECK(error("", {"training.optimizer=sgd"}) ==
        "--set training.optimizer=sgd: training.optimizer is \"sgd\"; it must be a table of settings; write "
        "training.optimizer.name = \"sgd\"");
  CHECK(error("", {"training.optimizer=3"}) ==
        "--set training.optimizer=3: training.optimizer is 3; it must be a table of settings");
  CHECK(error("", {"run.checkpoint=often"}) ==
        "--set run.checkpoint=often: run.checkpoint is \"often\"; it must be a table of settings");
  CHECK(error("[training]\noptimizer = { learning_rate = true }\n") ==
        "c.toml:8: training.optimizer.learning_rate is true; it must be a number above 0");
  CHECK(error("[run]\nfolder = 3\n") == "c.toml:8: run.folder is 3; it must be a text in quotes");
  CHECK(error("", {"data.shuffle=1"}) == "--set data.shuffle=1: data.shuffle is 1; it must be true or false");
  CHECK(error("[method]\nresolutions = [[2, 2, 2, 2], [1]]\n") ==
        "c.toml:8: method.resolutions is [2, 2, 2, 2]; it must be one to three integers such as [2] or [2, 2, 2], each "
        "at least 1");
  CHECK(error("[method]\nresolutions = [\n [2],\n [0.5]]\n") ==
        "c.toml:10: method.resolutions is [0.5]; it must be one to three integers such as [2] or [2, 2, 2], each at "
        "least 1");
  CHECK(error("[method]\nstages = 3\n") ==
        "c.toml:8: method.stages is 3; it must be a list of tables, [[method.stages]]");
}

TEST_CASE("values out of range") {
  CHECK(error("[training]\nbatch = 0\n") ==
        "c.toml:8: training.batch is 0; it must be an integer of at least 1 and at most 4194304");
  CHECK(error("[training]\nbatch = 3000000000\n") ==
        "c.toml:8: training.batch is 3000000000; it must be an integer of at least 1 and at most 4194304");
  CHECK(error("[training]\noptimizer = { learning_rate = -1 }\n") ==
        "c.toml:8: training.optimizer.learning_rate is -1; it must be a number above 0");
  CHECK(error("[training]\noptimizer = { learning_rate = inf }\n") ==
        "c.toml:8: training.optimizer.learning_rate is inf; it must be a number above 0");
  CHECK(error("[training]\noptimizer = { beta1 = 1.0 }\n") ==
        "c.toml:8: training.optimizer.beta1 is 1; it must be a number of at least 0 and below 1");
}

TEST_CASE("unknown words list the allowed ones and the nearest") {
  CHECK(error("[method]\nname = \"mrfm\"\n") ==
        "c.toml:8: method.name is \"mrfm\"; it must be one of baseline, mrt, mrmf, progressive, auto; did you mean "
        "\"mrmf\"?");
  CHECK(error("[method]\ntop = \"none\"\n") ==
        "c.toml:8: method.top is \"none\"; it must be one of dense, fresh, interpolated, stem");
  CHECK(error("", {"model.preset=neuron_invertor"}) ==
        "--set model.preset=neuron_invertor: model.preset is \"neuron_invertor\"; it must be one of neuron_inverter, "
        "cosmoflow, cosmoflow_mlperf, unet, unet3d, resnet, jag; did you mean \"neuron_inverter\"?");
  CHECK(error("[training]\nbatch_norm = true\n") ==
        "c.toml:8: training.batch_norm is true; it must be one of local, global");
}

TEST_CASE("TOML that is no TOML") {
  CHECK(error("[training\n").rfind("c.toml:7:10: not valid TOML: ", 0) == 0);
  CHECK(error("[training]\nbatch = 1\nbatch = 2\n").rfind("c.toml:9:9: not valid TOML: ", 0) == 0);
}

TEST_CASE("overrides speak of themselves") {
  CHECK(error("", {"training.bacth=3"}) ==
        "--set training.bacth=3: unknown key 'training.bacth'; did you mean 'training.batch'?");
  CHECK(
      error("", {"training.batch=many"}) ==
      "--set training.batch=many: training.batch is \"many\"; it must be an integer of at least 1 and at most 4194304");
  CHECK(error("", {"training.batch"}) ==
        "--set training.batch: expected section.key=value, such as training.batch=256");
  CHECK(error("", {"model.preset.x=1"}) == "--set model.preset.x=1: \"neuron_inverter\" (c.toml:6) holds no keys");
  CHECK(error("", {"method.stages[0].coarse.batch=1"}) ==
        "--set method.stages[0].coarse.batch=1: 'stages' has 0 entries, counted from 0");
  CHECK(error("", {"method.stages[x].coarse.batch=1"}) ==
        "--set method.stages[x].coarse.batch=1: 'stages[x]' is not of the form list[number]");
  CHECK(error("", {"method.resolutions=[[2],[1]]"}) ==
        "--set method.resolutions=[[2],[1]]: method.resolutions has 2 entries; baseline trains at one, such as [[1]]");
}

TEST_CASE("mistakes in layers and stages") {
  const std::string kinds =
      "conv, conv_transpose, locally_connected, rica, max_pool, average_pool, l2_pool, local_contrast_norm, "
      "global_average_pool, upsample, batch_norm, group_norm, layer_norm, flatten, dense, relu, leaky_relu, tanh, "
      "gelu, silu, softplus, sigmoid, dropout, add, concat, labels, noise, slice, stop_gradient";
  CHECK(layer_error("type = \"conw\"") ==
        "c.toml:44: model.layers[10].type is \"conw\"; it must be one of " + kinds + "; did you mean \"conv\"?");
  CHECK(layer_error("units = 4") == "c.toml:43: model.layers[10] has no type; it must be one of " + kinds);
  CHECK(layer_error("type = \"conv\"\nkernel = 3") ==
        "c.toml:43: model.layers[10] is a conv without 'filters', an integer of at least 1");
  CHECK(layer_error("type = \"conv\"\nfilter = 3") ==
        "c.toml:45: unknown key 'model.layers[10].filter'; did you mean 'model.layers[10].filters'?");
  CHECK(layer_error("type = \"dense\"\nunits = 4\nwindow = 3") ==
        "c.toml:46: unknown key 'model.layers[10].window'; there are model.layers[10].{every, from, initialiser, "
        "name, type, units, weights_of}");
  CHECK(layer_error("type = \"dropout\"\nrate = 1") ==
        "c.toml:45: model.layers[10].rate is 1; it must be a number of at least 0 and below 1");
  CHECK(layer_error("type = \"leaky_relu\"\nslope = 0") ==
        "c.toml:45: model.layers[10].slope is 0; it must be a number above 0");
  CHECK(layer_error("type = \"batch_norm\"\nmomentum = 0") ==
        "c.toml:45: model.layers[10].momentum is 0; it must be a number above 0 and at most 1");
  for (const char* padding : {"\"some\"", "[]", "-1", "[1, 1, 1, 1]", "[[1, 2, 3]]", "[[1]]", "1.5", "true"})
    CHECK(layer_error(std::string("type = \"conv\"\nfilters = 3\nkernel = 3\npadding = ") + padding) ==
          std::string("c.toml:47: model.layers[10].padding is ") + padding +
              "; it must be \"valid\", \"same\", a number, or one to three entries, each a number or a pair [before, "
              "after] of at least 0");
  CHECK(layer_error("type = \"relu\"\nname = \"norm\"") ==
        "c.toml:7: two layers of the model are named 'norm'; names must be unique");
  CHECK(error("[method]\nname = \"mrt\"\nresolutions = [[2], [1]]\n[[method.stages]]\ncoarse = { bacth = 2 }\n") ==
        "c.toml:11: unknown key 'method.stages[0].coarse.bacth'; did you mean 'method.stages[0].coarse.batch'?");
}

TEST_CASE("sizes of layers are integers") {
  for (const char* kernel : {"0", "[]", "[3, 0]", "[1, 1, 1, 1]", "1.5", "[[3]]", "2000000"})
    CHECK(layer_error(std::string("type = \"conv\"\nfilters = 3\nkernel = ") + kernel) ==
          std::string("c.toml:46: model.layers[10].kernel is ") + kernel +
              "; it must be an integer for every axis, or one to three per axis such as [3] or [3, 3, 3], each at "
              "least 1");
}

TEST_CASE("a phase that ends by a metric that is not said") {
  const std::string classes = "[training]\nloss = \"cross_entropy\"\n";
  const std::string mrt = "[method]\nname = \"mrt\"\nresolutions = [[2], [1]]\n";
  const std::string rest =
      " ends a phase by training.metric, which is not set; set it to " + metric_choices(Task::classes);
  CHECK(error(classes + mrt + "stop.coarse.metric = 0.8\n") == "c.toml:12: method.stop.coarse.metric" + rest);
  CHECK(error(classes + mrt + "stages = [{ coarse = { metric = 0.8 } }]\n") == "c.toml:12: method.stages" + rest);
  CHECK(error(classes + "metric = \"dice\"\n" + mrt + "stop.coarse.metric = 0.8\n") == "no error");
  CHECK(error(classes + "metric = \"dice\"\n" + mrt + "stop.coarse.metric = 1.5\n") != "no error");
}

TEST_CASE("a patience that waits for no threshold") {
  const std::string mrmf = "[method]\nname = \"mrmf\"\nresolutions = [[2], [1]]\n";
  const std::string rest = "threshold, which is not set; set it too, or remove the patience";
  CHECK(error("[method]\nstop.finetune.patience = 5\n") ==
        "c.toml:8: method.stop.finetune.patience counts epochs in which the training loss falls by less than "
        "method.stop.finetune." +
            rest);
  CHECK(error(mrmf + "stop.coarse = { epochs = 9, patience = 5 }\n") ==
        "c.toml:10: method.stop.coarse.patience counts epochs in which the training loss falls by less than "
        "method.stop.coarse." +
            rest);
  CHECK(error(mrmf + "stages = [{ dense = { patience = 5 } }]\n") ==
        "c.toml:10: method.stages[0].dense.patience counts epochs in which the training loss falls by less than "
        "method.stages[0].dense." +
            rest);
  CHECK(error(mrmf + "stop.dense.threshold = 1e-3\nstages = [{ dense = { patience = 5 } }]\n") == "no error");
  CHECK(error(mrmf + "stop.dense.patience = 5\nstages = [{ dense = { threshold = 1e-3 } }]\n") == "no error");
  // Runs that an earlier version made are still read.
  const std::string old = std::string(kSmallest) + "[method]\nstop.finetune.patience = 5\n";
  CHECK(parse_config(old, "run/config.toml", {}, Writer::run).method.finetune.patience == 5);
}

TEST_CASE("what is missing") {
  const auto missing = [](const std::string& text) -> std::string {
    try {
      parse_config(text, "c.toml", {});
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  };
  CHECK(missing("") == "c.toml: data.files is missing; name the HDF5 files to read, such as files = [\"neuron.h5\"]");
  const std::string data = "[data]\nfiles = \"a.h5\"\ntrain = { samples = \"x\", labels = \"y\" }\n";
  CHECK(missing(data) ==
        "c.toml: data.validation.samples is missing; name the data set inside the files, or let data.split.by choose "
        "some of the training rows");
  CHECK(missing(data + "validation = { samples = \"x\", labels = \"y\" }\n") ==
        "c.toml: model is missing; give model.preset (mrmf presets lists them) or [[model.layers]]");
}

TEST_CASE("keys that contradict each other") {
  const std::string relu = "layers = [{ type = \"relu\" }, { type = \"tanh\" }]\n";
  CHECK(error(relu) == "c.toml:7: model.preset = \"neuron_inverter\" and model.layers are both given; keep one");
  CHECK(error("cut = \"flaten\"\n")
            .rfind("c.toml:7: model.cut is \"flaten\", which names no layer; did you mean "
                   "\"flatten\"? (conv1, pool1, relu1, ",
                   0) == 0);
  CHECK(error("cut = \"conv1\"\n") ==
        "c.toml:7: model.cut is the first layer, which leaves no bottom to transfer; name a later one");
  CHECK(error("",
              {"model.preset=\"\"", "model.layers=[{type=\"relu\"}]", "method.name=mrt", "method.resolutions=[2,1]"}) ==
        "--set model.preset=\"\": model.preset is \"\"; it must be one of neuron_inverter, cosmoflow, "
        "cosmoflow_mlperf, unet, unet3d, resnet, jag");
  CHECK(error("[training]\noptimizer = { rule = \"piecewise\" }\n") ==
        "c.toml:8: training.optimizer.rule: the rule \"piecewise\" needs training.optimizer.boundaries, such as [50, "
        "75]");
  CHECK(error("[training]\noptimizer.rule = \"piecewise\"\noptimizer.boundaries = [50, 25]\n") ==
        "c.toml:9: training.optimizer.boundaries is [50, 25]; the epochs must increase");
  for (const char* rule : {"piecewise", "plateau"})
    CHECK(error(std::string("[training]\noptimizer = { boundaries = [3], rule = \"") + rule +
                "\" }\n[method]\ncurve = \"run\"\n") ==
          std::string("c.toml:8: training.optimizer.rule: the rule \"") + rule +
              "\" counts the epochs of one phase and makes no curve over the run; set method.curve = \"phase\", "
              "or the rule constant, cosine or linear");
  CHECK(
      error("[method]\ncurve = \"run\"\ncoarse = { rule = \"plateau\" }\n").rfind("c.toml:9: method.coarse.rule", 0) ==
      0);
  CHECK(error("[method]\ncurve = \"run\"\ncoarse = { rule = \"linear\" }\n") == "no error");
  CHECK(error("[method]\ncoarse = { rule = \"piecewise\" }\n") ==
        "c.toml:8: method.coarse.rule: the rule \"piecewise\" needs training.optimizer.boundaries, such as [50, 75]");
}

TEST_CASE("resolutions that do not suit the method or each other") {
  const auto method = [](const std::string& name, const std::string& resolutions) {
    return error("[method]\nname = \"" + name + "\"\nresolutions = " + resolutions + "\n");
  };
  CHECK(method("baseline", "[[2], [1]]") ==
        "c.toml:9: method.resolutions has 2 entries; baseline trains at one, such as [[1]]");
  CHECK(method("mrt", "[[4], [2], [1]]") ==
        "c.toml:9: method.resolutions has 3 entries; mrt needs exactly two, such as [[2], [1]]");
  CHECK(method("progressive", "[[2]]") ==
        "c.toml:9: method.resolutions has 1 entry; progressive needs at least two, such as [[2], [1]]");
  CHECK(error("[method]\nname = \"mrmf\"\n") ==
        "c.toml: method.resolutions has 1 entry; mrmf needs at least two, such as [[2], [1]]");
  CHECK(method("mrmf", "[[1], [2]]") ==
        "c.toml:9: method.resolutions has [2] after [1]: they must go from coarse to fine");
  CHECK(method("mrmf", "[[3], [2], [1]]") ==
        "c.toml:9: method.resolutions has [2] after [3]: each factor must divide the one before it");
  CHECK(method("mrmf", "[[2, 1, 1], [1, 1, 2], [1]]") ==
        "c.toml:9: method.resolutions has [1, 1, 2] after [2, 1, 1]: they must go from coarse to fine");
  CHECK(method("mrmf", "[[4, 4, 4], [2], [1]]") ==
        "c.toml:9: method.resolutions has entries of 3 and of 1 numbers; give each as many as the data has axes");
  CHECK(method("mrmf", "[[2], [2], [1]]") == "c.toml:9: method.resolutions has [2] after [2]: the same twice");
  CHECK(error("[method]\nname = \"mrt\"\nresolutions = [[2], [1]]\ntop = \"interpolated\"\n") ==
        "c.toml:10: method.top: mrt always starts from a fresh top; remove the key or set it to \"fresh\"");
  CHECK(error("[method]\nname = \"progressive\"\nresolutions = [[2], [1]]\ntop = \"interpolated\"\n") ==
        "c.toml:10: method.top: progressive has no choice of top layers; remove the key or set it to \"dense\"");
  CHECK(error("[method]\ntop = \"fresh\"\n") ==
        "c.toml:8: method.top: baseline has no choice of top layers; remove the key or set it to \"dense\"");
  CHECK(error("[method]\nname = \"mrt\"\nresolutions = [[2], [1]]\nbottom = \"fresh\"\n") ==
        "c.toml:10: method.bottom = \"fresh\" trains no coarse model: it goes with mrmf, one fusion, method.top = "
        "\"dense\" and method.teams = \"sequential\" alone; set it to \"coarse\"");
  CHECK(error("[method]\nname = \"mrt\"\nresolutions = [[2], [1]]\nstages = [{}, {}]\n") ==
        "c.toml:10: method.stages has 2 entries, but 2 resolutions make 1 fusion stage");
}
