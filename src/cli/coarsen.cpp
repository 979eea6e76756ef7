// `mrmf coarsen`: makes coarse copies of files, under their own names.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "generated/version.hpp"
#include "io/coarsen/coarsen.hpp"
#include "io/files/file_names.hpp"
#include "io/files/output_file.hpp"
#include "io/hdf5/file.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/system/backend_choice.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

/// "2,2,2", for as many axes as it has numbers.
struct Factor {
  Extent extent{1, 1, 1};
  int axes = 0;
};

Factor factor_of(const std::string& text) {
  std::vector<Index> numbers;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const bool number = !word.empty() && word.size() < 7 && word.find_first_not_of("0123456789") == std::string::npos;
    numbers.push_back(number ? std::stoll(word) : 0);
  }
  Factor factor;
  factor.axes = static_cast<int>(numbers.size());
  const bool good = !numbers.empty() && numbers.size() <= factor.extent.size() &&
                    std::ranges::all_of(numbers, [](Index n) { return n >= 1; });
  if (!good)
    throw ConfigError("--factor " + text + ": give one to three integers of at least 1, one per axis, such as 2,2,2");
  std::ranges::copy(numbers, factor.extent.end() - factor.axes);
  if (factor.extent == Extent{1, 1, 1})
    throw ConfigError("--factor " + text + ": averages nothing; give a number above 1");
  return factor;
}

struct CoarsenOptions {
  std::vector<std::string> files;
  std::string factor;                ///< "2,2,2": per axis
  std::string axes;                  ///< "n c y x": of the data sets to average
  std::string output;                ///< folder
  std::vector<std::string> samples;  ///< data sets to average; empty: by their number of axes
  RowsBy rows = RowsBy::axis;
  ElementType type = ElementType::float32;
  MissingRule missing = MissingRule::refuse;
  PackingRule packing = PackingRule::apply;
  int threads = 0;
  Replace replace = Replace::nothing;
};

// The files that patterns stand for, as the root finds them. Collective.
std::vector<std::string> files_of(const CoarsenOptions& options, Comm& world) {
  std::string names;
  collective_try_on_root(world, [&] {
    for (const std::string& file : expand_patterns(options.files)) {
      if (is_pattern(file)) throw DataError(no_match_text(file));
      names += file + '\n';
    }
  });
  world.broadcast(names, 0);
  std::vector<std::string> files;
  std::istringstream lines(names);
  for (std::string line; std::getline(lines, line);) files.push_back(line);
  return files;
}

// Refuses two sources of the same name, and a source that would be overwritten.
void check_names(const CoarsenOptions& options) {
  std::set<fs::path> names;
  for (const std::string& file : options.files) {
    const fs::path target = fs::path(options.output) / fs::path(file).filename();
    require_output(target.string(), options.replace, all_inputs(target.string(), options.files));
    if (!names.insert(target).second)
      throw ConfigError("two files are called " + target.filename().string() + "; copy them into different folders");
  }
}

void write_copies(CoarsenOptions options, Comm& world) {
  const Timer timer;
  options.files = files_of(options, world);
  CoarseCopy copy;
  const Factor factor = factor_of(options.factor);
  copy.factor = factor.extent;
  copy.axes = factor.axes;
  copy.axis_names = options.axes;
  copy.replace = options.replace;
  copy.samples = options.samples;
  copy.rows = options.rows;
  copy.type = options.type;
  copy.missing = options.missing;
  copy.packing = options.packing;
  copy.program = std::string("mrmf ") + kVersion;
  omp_set_num_threads(choose_threads(options.threads, world));
  std::optional<OutputFolder> folder;
  collective_try(world, [&] {
    if (!world.root()) return;
    if (options.output.empty()) throw ConfigError("--output is empty; name a folder");
    check_names(options);
    require_copies(copy, options.files);
    folder.emplace(options.output);
  });
  std::vector<std::unique_ptr<FinishedFile>> copies;  // in their places when all are whole
  std::string notes;
  Index samples = 0, bytes = 0;
  for (const std::string& file : options.files) {
    copy.source = file;
    copy.target = (fs::path(options.output) / fs::path(file).filename()).string();
    CoarseFile made = coarse_copy(copy, world);
    if (world.root()) copies.push_back(std::move(made.file));
    for (const std::string& note : made.notes) notes += copy.target + ": " + note + "\n";
    samples += made.count;
    bytes += made.bytes;
  }
  collective_try_on_root(world, [&] { put_in_place(copies); });
  if (!world.root()) return;
  std::cout << notes;
  std::cout << fmt::format("{}: {} samples in {} file{}, {:.3g} GB, in {:.1f} s\n", options.output, samples,
                           options.files.size(), options.files.size() == 1 ? "" : "s", static_cast<double>(bytes) / 1e9,
                           timer.seconds());
}

}  // namespace

void add_coarsen(Subcommands& commands) {
  CLI::App* coarsen = commands.app.add_subcommand("coarsen", "write averaged-down copies of data files");
  auto options = std::make_shared<CoarsenOptions>();
  coarsen->add_option("files", options->files, "HDF5 files")->required();
  coarsen->add_option("--factor", options->factor, "how many neighbours become one, per axis of positions: 2,2,2")
      ->required();
  coarsen->add_option("--output,-o", options->output, "folder for the copies, which keep their names")->required();
  coarsen->add_option("--axes", options->axes,
                      "axes of the data sets to average, in the order of the files: n for samples, c for channels, any "
                      "other name for a position, such as \"n c y x\"; without c there is one channel; unless given, "
                      "samples come first and channels last");
  coarsen
      ->add_option("--samples", options->samples,
                   "data sets to average; unless given, all that have the axes of --axes, or samples with as many axes "
                   "as --factor has numbers; may be given more than once")
      ->take_all()
      ->expected(1);
  const Choices<RowsBy> forms{{"axis", RowsBy::axis}, {"files", RowsBy::files}, {"groups", RowsBy::groups}};
  add_choice(
      *coarsen, "--rows", options->rows, forms,
      "what one sample is: a step along the first axis of its data set, or, as data.rows says, all of a data set "
      "of a file or of a group; then --samples names data sets within the groups");
  const Choices<ElementType> types{{"float32", ElementType::float32}, {"uint16", ElementType::uint16}};
  add_choice(*coarsen, "--type", options->type, types, "type of the copy's samples; uint16: means rounded to integers");
  add_choice(*coarsen, "--missing", options->missing, choices<MissingRule>(),
             "rows that were never written: refuse them, or take the fill value");
  add_choice(*coarsen, "--packing", options->packing, choices<PackingRule>(),
             "scales, offsets and missing numbers of netCDF and CF: apply them to the data sets to average, or average "
             "the stored numbers");
  coarsen->add_option("--threads", options->threads, "threads per rank; 0: all cores that the rank may use")
      ->check(not_negative())
      ->capture_default_str();
  add_overwrite(*coarsen, options->replace, "replace copies that are there");
  add_example(*coarsen, "mrmf coarsen mydata.h5 --factor 2,2 -o coarse");
  commands.run(*coarsen, [=, &world = commands.world] { write_copies(*options, world); });
}

}  // namespace mrmf
