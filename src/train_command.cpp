// `mrmf train`: configuration to finished run folder.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "src/commands.hpp"
#include "src/model_file.hpp"
#include "src/pipeline.hpp"

namespace mrmf {
namespace {

// Ranks that read different configurations or data would part ways later, in a hang; say so at once instead.
void require_agreement(const Config& config, const DatasetShape& shape, Comm& world) {
  if (!world.agree(std::hash<std::string>{}(to_toml(config))))
    throw FaultError("the ranks read different configurations; is the file the same on every node?");
  if (!world.agree(static_cast<std::uint64_t>(shape.samples)))
    throw FaultError("the ranks see different data sets; is the file system the same on every node?");
}

// Before any data is read, so that an impossible plan costs nothing.
void check_plan(const Plan& plan, const Config& config, const DatasetShape& shape, const Comm& world) {
  const auto backend = make_reference_backend();
  for (const TrainStep& step : plan.training()) {
    const Network network(*backend,
                          {coarse_shape(shape.sample, step.resolution), 1, config.model.layers, config.model.cut});
    if (network.output().per_sample() != shape.outputs)
      throw ConfigError(
          fmt::format("the model has {} outputs and the data {} labels per sample; set the units of the "
                      "last layer, or data.train.labels",
                      network.output().per_sample(), shape.outputs));
    OrderSettings order;
    order.samples = shape.samples;
    order.ranks = world.size();
    order.rank = world.rank();
    order.shards = config.data.shards > 0 ? config.data.shards : world.size();
    order.batch = step.batch;
    check(order);
  }
}

// Removes a run folder that this command made, unless training began in it.
class NewFolder {
 public:
  NewFolder(std::string path, const Comm& world)
      : path_(std::move(path)), mine_(world.root() && !std::filesystem::exists(path_)) {}
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (mine_) std::filesystem::remove_all(path_, ignored);
  }
  void keep() { mine_ = false; }

 private:
  std::string path_;
  bool mine_;
};

// The root opens the report; the folder's sub-folders are there for every rank once it returns.
RunReport open_report(const Config& config, const Plan& plan, bool overwrite, Comm& world) {
  RunReport report;
  if (world.root()) {
    report =
        RunReport({config.run.folder, overwrite, &std::cout, stdout_is_terminal()}, to_toml(config), to_json(plan));
    std::filesystem::create_directories(config.run.folder + "/checkpoints");
    std::cout << to_text(plan) << std::flush;
  }
  world.barrier();
  return report;
}

}  // namespace

void train_command(const TrainOptions& options, Comm& world) {
  const Config config = read_config(options.config, options.overrides);
  const Plan plan = make_plan(config);
  const DatasetShape shape = inspect_dataset(config.data.train, world);
  require_agreement(config, shape, world);
  check_plan(plan, config, shape, world);

  NewFolder folder(config.run.folder, world);
  RunReport report = open_report(config, plan, options.overwrite, world);
  const auto backend = make_backend(config.run, world);
  report.log(fmt::format("{} rank{}, {}", world.size(), world.size() == 1 ? "" : "s", backend->description()));
  Data data(config, world);
  report.log(fmt::format("data: {} training and {} validation samples of {}, read in {:.1f} s", shape.samples,
                         data.validation().shape.samples, to_string(shape.sample), data.load_seconds()));

  folder.keep();
  Outcome outcome = run_pipeline(plan, config, {*backend, world, data, report});

  save_model(config.run.folder + "/checkpoints/final.h5", outcome.learner.model, to_toml(config), world);
  RunResult result = make_result(config, outcome.stages, outcome.seconds);
  result.ranks = world.size();
  result.machine = this_machine();
  result.versions = these_versions(backend->description());
  report.finish(result);
}

}  // namespace mrmf
