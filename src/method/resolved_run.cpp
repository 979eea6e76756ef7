#include "src/method/resolved_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "kernels/errors.hpp"
#include "layers/geometry.hpp"
#include "src/data/augment.hpp"
#include "src/data/class_balance.hpp"
#include "src/data/data.hpp"
#include "src/data/label_names.hpp"
#include "src/data/normalise.hpp"
#include "src/data/units.hpp"
#include "src/data/windows.hpp"
#include "src/method/auto_schedule.hpp"
#include "src/method/preflight.hpp"
#include "src/plan/resolve_labels.hpp"

namespace mrmf {
namespace {

Index output_channels(const Config& config, const Plan& plan, const DatasetShape& shape) {
  const auto backend = make_reference_backend();
  return Network(*backend, network_settings(config, plan, shape.sample, plan.last.resolution)).output().channels;
}

// Writes out what "auto" comes to for these data; why, a line each.
std::vector<std::string> choose_method(Config& config, const DatasetShape& shape, Index validation, Comm& world) {
  const RunSize size{static_cast<double>(shape.samples), static_cast<double>(validation), world.size()};
  AutoSchedule chosen = choose_schedule(config, shape, size, world);
  config = std::move(chosen.config);
  return std::move(chosen.reasons);
}

// What attributes of both parts say that nothing applies, each line once.
std::vector<std::string> not_applied_warnings(const DatasetShape& train, const DatasetShape& validation) {
  std::vector<std::string> lines = train.not_applied;
  for (const std::string& line : validation.not_applied)
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
  return lines;
}

}  // namespace

Warnings::~Warnings() { print_warnings(lines_, world_); }

std::vector<std::string> resolve_from_data(Config& config, const DatasetShape& train,
                                           const std::vector<Extent>& resolutions, Comm& world) {
  resolve_labels(config, train, resolutions);
  resolve_normalisation(config, train, world);
  resolve_units(config.data, train);
  resolve_class_weights(config, train, world);
  return resolve_names(config, output_channels(config, make_plan(config), train), train);
}

// Collective.
ResolvedRun resolve_run(Config config, Warnings& warnings, Comm& world) {
  const bool automatic = config.method.name == MethodName::automatic;
  if (!automatic) make_plan(config);  // refuses an impossible plan before any file is opened
  if (!automatic) warnings.add(config_warnings(config));
  const DatasetShape shape = inspect_dataset(config.data.train, world);
  check_agreement(config, shape, world);
  DatasetShape validation = inspect_dataset(config.data.validation, {config.data.train, shape}, world);
  const std::optional<DatasetShape> test = test_headers(config.data, shape, world);
  require_distinct_rows(config.data, shape, validation, test ? &*test : nullptr, world);
  require_channels(config.data, shape.sample);
  warnings.add(sample_warnings(config, shape.sample));
  warnings.add(not_applied_warnings(shape, validation));
  // "[1]" suits any data, and so does one size for all axes; from here on each axis has its own number.
  resolve_axes(config.model.layers, shape.sample.axes);
  require_patch(config, shape.sample, shape.label);
  std::vector<std::string> reasons;
  if (automatic) {
    reasons = choose_method(config, shape, validation.samples, world);
    warnings.add(config_warnings(config));
  }
  if (config.method.axes == 0) config.method.axes = shape.sample.axes;
  Plan plan = make_plan(config);
  check_plan(plan, config, shape, world);
  require_augmentable(config.data, shape.sample, shape.label, plan.resolutions());
  warnings.add(resolve_from_data(config, shape, plan.resolutions(), world));
  plan = make_plan(config);  // a metric may have been of a class by its name
  return {std::move(config), std::move(plan), shape, std::move(reasons), automatic, std::move(validation)};
}

}  // namespace mrmf
