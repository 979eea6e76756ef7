#include "src/inference/models_together.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "io/rows/row_choice.hpp"
#include "io/values/number_names.hpp"
#include "kernels/errors.hpp"
#include "src/plan/plan.hpp"
#include "src/run/model_file.hpp"

namespace mrmf {
namespace {

/// What has to be the same for models to predict together, in words.
struct Trait {
  std::string what, value;
};

std::vector<Trait> traits(const ModelChoice& choice, const std::string& sample) {
  const DataConfig& data = choice.config.data;
  constexpr const char* rows[] = {"axis", "files", "groups"};
  constexpr const char* tasks[] = {"numbers", "yes or no", "classes"};
  const auto text = [](const auto& words) { return words.empty() ? std::string("not given") : words; };
  return {{"the task", tasks[static_cast<std::size_t>(choice.config.training.loss.task())]},
          {"the resolution", fmt::format("{}", fmt::join(choice.resolution, "x"))},
          {"the shape of a sample", sample},
          {"data.rows", rows[static_cast<std::size_t>(data.train.rows)]},
          {"data.axes", text(data.train.axes)},
          {"data.mask", data.train.mask ? "true" : "false"},
          {"data.layout", data.train.layout == SampleLayout::as_stored ? "as_stored" : "reinterpret"}};
}

// The folds of one split train on each other's validation rows.
void require_unseen(const ModelOptions& options, const std::vector<ModelChoice>& choices) {
  const bool own = options.files.empty() && options.samples.empty() && options.groups.empty();
  if (!own || options.split == Subset::test) return;
  const RowChoice& first = choices.front().config.data.validation.choice;
  for (std::size_t m = 1; m < choices.size(); ++m) {
    RowChoice here = choices[m].config.data.validation.choice;
    if (here.rule != SplitRule::folds || here.fold == first.fold) continue;
    here.fold = first.fold;
    if (here == first)
      refuse_together(options.models.front(), options.models[m],
                      "they are folds of one split, and each was trained on rows with which the other validates; give "
                      "--split test, or data that none has seen with --files or --samples");
  }
}

}  // namespace

void refuse_together(const std::string& a, const std::string& b, const std::string& why) {
  throw ConfigError("predict: " + a + " and " + b + " cannot predict together: " + why);
}

void require_together(const ModelOptions& options, const std::vector<ModelChoice>& choices, Comm& world) {
  if (choices.size() < 2) return;
  std::vector<Trait> first;
  for (std::size_t m = 0; m < choices.size(); ++m) {
    const std::vector<Trait> here = traits(choices[m], read_model_facts(choices[m].file, world).sample);
    if (m == 0) first = here;
    for (std::size_t i = 0; i < here.size(); ++i)
      if (here[i].value != first[i].value && !here[i].value.empty() && !first[i].value.empty())
        refuse_together(options.models.front(), options.models[m],
                        here[i].what + " is " + first[i].value + " here and " + here[i].value + " there");
    const auto names = [&](std::size_t model) {
      return LabelNames::from_texts(choices[model].config.data.names.stored, options.models[model]);
    };
    if (const std::string text = contradiction(names(0), names(m)); !text.empty())
      refuse_together(options.models.front(), options.models[m], "of the labels " + text);
    std::error_code none;
    for (std::size_t other = 0; other < m; ++other)
      if (std::filesystem::equivalent(choices[other].file, choices[m].file, none))
        refuse_together(options.models[other], options.models[m],
                        "they are one model, which would look surer than it is; give runs of other seeds");
  }
  require_unseen(options, choices);
}

}  // namespace mrmf
