#include "src/cli/model_options.hpp"

#include "src/cli/commands.hpp"

namespace mrmf {

void add_wanted(CLI::App& app, WantedModel& wanted) {
  const Choices<WhichEpoch> epochs{{"best", WhichEpoch::best}, {"last", WhichEpoch::last}};
  add_choice(app, "--epoch", wanted.epoch, epochs,
             "best or last: which epoch's model to use; the best one unless given");
  app.add_flag("--checkpoint", wanted.checkpoint, "use the newest checkpoint of a run that is not done");
}

void add_model_options(CLI::App& sub, ModelOptions& options) {
  sub.add_option("--files", options.files, "HDF5 files to use instead of the run's");
  const Choices<SplitName> splits{{"train", SplitName::train}, {"validation", SplitName::validation}};
  add_choice(sub, "--split", options.split, splits, "train or validation: whose data set names to use");
  sub.add_option("--samples", options.samples,
                 "name of the data set of samples, e.g. test_frames; once for each where the run has several")
      ->expected(1)
      ->allow_extra_args(false)  // a list would take the run's folder that follows
      ->take_all();
  sub.add_option(
      "--groups", options.groups,
      "the groups that are samples, such as \"test/*\", of a run with data.rows = \"groups\"; the run's unless "
      "given");
  add_choice(sub, "--missing", options.missing, choices<MissingRule>(),
             "rows that were never written: refuse them, or take the fill value; the run's data.missing unless given");
  add_choice(sub, "--not-finite", options.not_finite, choices<NotFiniteRule>(),
             "rows with NaN or infinity: refuse them, leave them out, or fill what is missing (NaN) in samples; the "
             "run's data.not_finite unless given");
  add_choice(
      sub, "--packing", options.packing, choices<PackingRule>(),
      "scales, offsets and missing numbers of netCDF and CF: apply or ignore them; the run's data.packing unless "
      "given");
  add_wanted(sub, options.wanted);
}

}  // namespace mrmf
