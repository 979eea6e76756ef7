#include "src/simulators/cosmology/simulate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <omp.h>
#include <nlohmann/json.hpp>

#include "generated/version.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/output.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "mpi/grid_exchange.hpp"
#include "src/simulators/cosmology/universe_by_particle_mesh.hpp"
#include "src/system/host_info.hpp"

namespace mrmf::cosmology {
namespace {

// Numbers of the published files, in the published order.
constexpr std::array<int, kTrainFiles> kTrain = {
    102, 87, 26, 34,  54,  114, 94,  85,  30, 76, 64, 57,  83,  93, 107, 42,  63,  33, 96, 117, 61, 46,
    84,  24, 80, 73,  90,  22,  106, 113, 25, 47, 74, 101, 100, 82, 31,  112, 104, 92, 23, 97,  20, 86,
    103, 60, 32, 116, 111, 105, 52,  110, 50, 43, 44, 40,  70,  41, 36,  51,  91,  55, 72, 27};
constexpr std::array<int, kOtherFiles> kValidation = {53, 62, 56, 67, 115, 65, 21, 71};
constexpr std::array<int, kOtherFiles> kTest = {66, 75, 35, 95, 45, 81, 37, 77};

std::vector<CubeFile> spread(const Range& samples, Index per_file, std::span<const int> numbers) {
  const Index files = (samples.count + per_file - 1) / per_file;
  const auto most = static_cast<Index>(numbers.size());
  if (files > most)
    throw ConfigError(
        fmt::format("simulate cosmology: {} samples at {} per file need {} files where {} were published; ask for {}",
                    samples.count, per_file, files, most,
                    per_file < 128 ? "more samples per file or fewer samples" : "fewer samples"));
  std::vector<CubeFile> made;
  for (Index i = 0; i < files; ++i) {
    const Range part = piece(samples.count, i, files);
    made.push_back({fmt::format("{}{}.h5", kFilePrefix, numbers[static_cast<std::size_t>(i)]),
                    {samples.first + part.first, part.count}});
  }
  return made;
}

using Json = nlohmann::ordered_json;

std::string list(const std::string& folder, const std::vector<CubeFile>& files) {
  Json paths = Json::array();  // JSON strings are also TOML strings
  for (const CubeFile& file : files) paths.push_back((std::filesystem::path(folder) / file.name).string());
  return paths.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

CubeFiles cube_files(const CosmologySimulation& settings) {
  const Index other = std::max<Index>(1, (settings.samples + 5) / 10);
  const Index train = settings.samples - 2 * other;
  return {spread({0, train}, settings.per_file, kTrain), spread({train, other}, settings.per_file, kValidation),
          spread({train + other, other}, settings.per_file, kTest)};
}

std::string metadata(const CosmologySimulation& settings, const CubeFile& file) {
  Json meta;
  meta["program"] = std::string("mrmf ") + kVersion;
  meta["seed"] = settings.seed;
  meta["samples"] = settings.samples;
  meta["firstSample"] = file.samples.first;
  meta["parName"] = kLabelNames;
  meta["redshifts"] = kRedshift;
  meta["boxAtH70_Mpc_per_h"] = settings.box;
  meta["voxelsPerAxis"] = settings.size;
  meta["particlesPerVoxelAndAxis"] = settings.particles;
  meta["Omega_b"] = Cosmology{}.omega_b;
  meta["method"] = to_string(settings.method);
  if (settings.method == Displacement::cola) {
    meta["steps"] = settings.steps;
    meta["meshCellsPerParticleAndAxis"] = settings.mesh;
  }
  return meta.dump();
}

std::string data_section(const CosmologySimulation& settings) {
  const CubeFiles files = cube_files(settings);
  const std::string names = "samples = \"3Dmap\", labels = \"unitPar\"";
  return "[data]\nfiles = " + list(settings.folder, files.train) + "\ntrain = { " + names + " }\nvalidation = { " +
         names + ", files = " + list(settings.folder, files.validation) +
         " }\n# test = " + list(settings.folder, files.test) + "\n";
}

}  // namespace mrmf::cosmology

namespace mrmf {
namespace {

using namespace cosmology;

constexpr int kLargestLattice = 4096;  // particles, or mesh cells, per axis: indices stay within FFTW's and ours

[[noreturn]] void refuse(const std::string& what) { throw ConfigError("simulate cosmology: " + what); }

bool power_of_two(int n) { return n > 0 && std::has_single_bit(static_cast<unsigned>(n)); }

void check_grids(const CosmologySimulation& s) {
  if (!power_of_two(s.size) || s.size < 4 || s.size > 1024)
    refuse(fmt::format("size {} is not a power of two from 4 to 1024", s.size));
  if (!power_of_two(s.particles) || s.particles > 8)
    refuse(fmt::format("{} particles per voxel and axis asked for; 1, 2, 4 or 8 are possible", s.particles));
  if (s.mesh < 1 || s.mesh > 4)
    refuse(fmt::format("{} mesh cells per particle and axis asked for; 1, 2, 3 or 4 are possible", s.mesh));
  if (s.size * s.particles * s.mesh > kLargestLattice)
    refuse(fmt::format("{} particles and {} mesh cells per axis are too many; {} cells are the most",
                       s.size * s.particles, s.size * s.particles * s.mesh, kLargestLattice));
  if (!std::isfinite(s.box) || s.box < 16 || s.box > 10000)
    refuse(fmt::format("a box of {} Mpc/h is none of 16 to 10000; the published side is 512", s.box));
}

void check_sharing(const CosmologySimulation& s) {
  if (!power_of_two(s.ranks_per_cube) || s.ranks_per_cube > s.size)
    refuse(fmt::format("{} ranks per cube cannot share {} planes of voxels equally; a power of two up to {} can",
                       s.ranks_per_cube, s.size, s.size));
  const int cells = s.size * s.particles * (s.method == Displacement::cola ? s.mesh : 1);
  int enough = s.ranks_per_cube;
  while (!SlabTranspose::fits(cells, cells + 2, enough)) enough *= 2;
  if (enough > s.ranks_per_cube)
    refuse(
        fmt::format("{} cells per axis are too many for {} ranks per cube: MPI counts what two ranks exchange in 32 "
                    "bits; use more ranks per cube, at least {}",
                    cells, s.ranks_per_cube, enough));
  if (s.ranks_per_cube > 1 && s.threads > 1)
    refuse(
        fmt::format("{} threads per rank asked for where ranks share a cube, which takes one; ask for more ranks "
                    "per cube instead",
                    s.threads));
}

constexpr auto kLabelAxis = static_cast<Index>(kLabels), kRedshiftAxis = static_cast<Index>(kRedshifts);

/// Cubes and labels of consecutive samples.
struct Samples {
  std::vector<std::uint16_t> counts;
  std::vector<float> labels, parameters;
};

/// Makes a rank's samples, one per thread at a time, or the rank's slabs of its group's samples.
class Workers {
 public:
  /// The group shares every cube; null: none is shared.
  Workers(const CosmologySimulation& settings, Comm* group)
      : group_(group), maker_(settings, group), part_(maker_.slab().points() * kRedshifts) {
    for (int i = 0; i < makers(settings); ++i) memories_.push_back(std::make_unique<UniverseMaker::Memory>(maker_));
  }

  Index count() const { return static_cast<Index>(memories_.size()); }

  /// At most count() samples.
  Samples make(const Range& range) {
    const auto count = static_cast<std::size_t>(range.count);
    Samples samples{std::vector<std::uint16_t>(count * part_), {}, {}};
    std::vector<std::array<float, kLabels>> labels(count);
    std::vector<std::exception_ptr> errors(count);
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(memories_.size()))
    for (std::size_t i = 0; i < count; ++i) try {
        labels[i] = maker_.make(range.first + static_cast<Index>(i), *memories_[i],
                                std::span(samples.counts).subspan(i * part_, part_));
      } catch (...) {
        errors[i] = std::current_exception();
      }
    for (std::size_t i = 0; i < count; ++i) {
      if (errors[i]) std::rethrow_exception(errors[i]);
      const Cosmology c = cosmology_of(labels[i]);
      samples.labels.insert(samples.labels.end(), labels[i].begin(), labels[i].end());
      for (const double value : {c.omega_m, c.sigma_8, c.n_s, c.hubble})
        samples.parameters.push_back(static_cast<float>(value));
    }
    return samples;
  }

  /// Writes rows of a file from `first` on. An error is thrown on the whole group.
  void write(const Samples& samples, Index first, Hdf5Output& file) {
    const auto action = [&] {
      const std::span<const std::uint16_t> counts = samples.counts;
      for (std::size_t i = 0; i * part_ < counts.size(); ++i)
        file.write_planes("3Dmap", first + static_cast<Index>(i), maker_.slab().first(),
                          counts.subspan(i * part_, part_));
      if (group_ != nullptr && !group_->root()) return;
      file.write_rows("unitPar", first, samples.labels);
      file.write_rows("physPar", first, samples.parameters);
    };
    if (group_ != nullptr)
      collective_try(*group_, action);
    else
      action();
  }

 private:
  Comm* group_;
  UniverseMaker maker_;
  std::size_t part_;  // numbers in this rank's part of a cube
  std::vector<std::unique_ptr<UniverseMaker::Memory>> memories_;
};

std::string path_of(const CosmologySimulation& settings, const CubeFile& cubes) {
  return (std::filesystem::path(settings.folder) / cubes.name).string();
}

std::string data_section_path(const CosmologySimulation& settings) {
  return (std::filesystem::path(settings.folder) / "data.toml").string();
}

void create_datasets(Hdf5Output& file, Index rows, Index size) {
  file.create_dataset("3Dmap", {rows, size, size, size, kRedshiftAxis}, ElementType::uint16);
  file.create_dataset("unitPar", {rows, kLabelAxis});
  file.create_dataset("physPar", {rows, kLabelAxis});
  file.create_dataset("redshifts", {kRedshiftAxis});
}

/// Whether an earlier, unfinished start of this very simulation has made the file. Collective.
bool is_made(const CosmologySimulation& settings, const CubeFile& cubes, Comm& comm) {
  bool made = false;
  collective_try(comm, [&] {
    const std::string path = path_of(settings, cubes);
    std::error_code error;
    if (!comm.root() || settings.replace == Replace::file || !std::filesystem::exists(path, error)) return;
    const Hdf5File file = Hdf5File::open(path, Comm::self());
    made = file.has("meta.JSON") && file.read_text("meta.JSON") == metadata(settings, cubes);
    if (!made)
      throw ConfigError(path +
                        ": is there already, and of another simulation; give --overwrite to replace it, or name "
                        "another folder");
  });
  return comm.any(made);
}

/// Writes one file; each rank or group of ranks writes a piece of its rows. Collective.
void write_cubes(const CosmologySimulation& settings, const CubeFile& cubes, Workers& workers, Comm& comm,
                 const std::function<void(Index)>& progress) {
  Hdf5Output file(path_of(settings, cubes), settings.replace, comm);
  create_datasets(file, cubes.samples.count, settings.size);
  const Index sharing = settings.ranks_per_cube;
  const Range rows = piece(cubes.samples.count, comm.rank() / sharing, comm.size() / sharing);
  collective_try(comm, [&] {
    for (Index done = 0; done < rows.count; done += workers.count()) {
      const Range block{rows.first + done, std::min(workers.count(), rows.count - done)};
      const Samples samples = workers.make({cubes.samples.first + block.first, block.count});
      workers.write(samples, block.first, file);
      progress((done + block.count) * cubes.samples.count / rows.count);
    }
    if (comm.root()) file.write_rows("redshifts", 0, std::vector<float>(kRedshift.begin(), kRedshift.end()));
  });
  std::string names;
  for (const char* name : kLabelNames) names += (names.empty() ? "" : ",") + std::string(name);
  file.write_text("namePar", names);
  file.write_text("meta.JSON", metadata(settings, cubes));
  file.commit();
}

void prepare_folder(const CosmologySimulation& settings, std::optional<OutputFolder>& folder, Comm& comm) {
  collective_try(comm, [&] {
    if (!comm.root()) return;
    if (settings.folder.empty()) throw ConfigError("--output is empty; name a folder");
    folder.emplace(settings.folder);
    // This file is written last, when all cubes are there.
    require_output(data_section_path(settings), settings.replace);
  });
}

void write_data_section(const CosmologySimulation& settings, Comm& comm) {
  collective_try(comm, [&] {
    if (comm.root()) write_file(data_section_path(settings), data_section(settings), settings.replace);
  });
}

void check_memory(const CosmologySimulation& settings) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  const int threads = makers(settings);
  const double wanted = bytes_per_thread(settings) * threads / gib, there = this_machine().memory_gib;
  if (wanted > there)
    throw ConfigError(fmt::format(
        "simulate cosmology: {:.1f} GiB are needed for a cube on each of {} threads and this "
        "machine has {:.1f} GiB; use fewer threads, more ranks per cube on more machines, a smaller size or "
        "fewer particles",
        wanted, threads, there));
}

/// The ranks that share cubes with this one, if any.
std::optional<Comm> group_of(const CosmologySimulation& settings, Comm& comm) {
  constexpr double kPatience = 300;  // seconds that a rank may be behind the others of its group
  const int sharing = settings.ranks_per_cube;
  if (comm.size() % sharing != 0)
    throw ConfigError(
        fmt::format("simulate cosmology: {} ranks are not whole groups of {} that share a cube; start a multiple of "
                    "{} ranks or change --ranks-per-cube",
                    comm.size(), sharing, sharing));
  if (sharing == 1) return std::nullopt;
  const double usual = comm.limit();
  if (usual == 0) comm.limit(kPatience);
  std::optional<Comm> group = comm.split(comm.rank() / sharing);
  comm.limit(usual);
  return group;
}

}  // namespace

std::string to_string(Displacement displacement) { return displacement == Displacement::lpt ? "lpt" : "cola"; }

Displacement read_displacement(const std::string& word) {
  for (const Displacement displacement : {Displacement::lpt, Displacement::cola})
    if (word == to_string(displacement)) return displacement;
  refuse(fmt::format("method '{}' is neither lpt nor cola", word));
}

int makers(const CosmologySimulation& s) {
  if (s.threads > 0) return s.threads;
  return s.ranks_per_cube > 1 ? 1 : omp_get_max_threads();
}

double bytes_per_thread(const CosmologySimulation& s) {
  const double lattice = std::pow(s.size * s.particles, 3), mesh = lattice * std::pow(s.mesh, 3);
  const double vectors = s.method == Displacement::cola ? 12 : 9;  // two displacements, position and velocity
  const double counts = std::pow(s.size, 3) * 4 * sizeof(std::uint16_t);
  return (sizeof(float) * (lattice * (vectors + 3) + mesh * (s.method == Displacement::cola ? 5 : 0)) + counts) /
         s.ranks_per_cube;
}

void check(const CosmologySimulation& s) {
  if (s.folder.empty()) refuse("no folder to write to is named; give --output FOLDER");
  if (s.samples < 3) refuse(fmt::format("{} samples asked for; at least 3 are needed, one per split", s.samples));
  if (s.per_file < 1 || s.per_file > 128)
    refuse(fmt::format("{} samples per file asked for; the published files hold 1 to 128", s.per_file));
  check_grids(s);
  if (s.steps < 1 || s.steps > 1000) refuse(fmt::format("{} time steps asked for; 1 to 1000 are possible", s.steps));
  if (s.threads < 0) refuse(fmt::format("{} threads asked for; 0 means as many as OpenMP has", s.threads));
  check_sharing(s);
  cosmology::cube_files(s);
}

CosmologyReport simulate_cosmology(const CosmologySimulation& settings, Comm& comm, const CubeProgress& progress) {
  check(settings);
  const Timer timer;
  std::optional<Comm> group = group_of(settings, comm);
  collective_try(comm, [&] { check_memory(settings); });
  std::optional<OutputFolder> folder;  // on the root
  prepare_folder(settings, folder, comm);
  Workers workers(settings, group ? &*group : nullptr);
  const CubeFiles files = cube_files(settings);
  CosmologyReport report;
  for (const auto* split : {&files.train, &files.validation, &files.test})
    for (const CubeFile& file : *split) {
      if (!is_made(settings, file, comm))
        write_cubes(settings, file, workers, comm, [&](Index done) {
          if (progress && comm.root()) progress(report.samples + done, settings.samples);
        });
      report.samples += file.samples.count;
      ++report.files;
    }
  write_data_section(settings, comm);
  report.seconds = comm.max(timer.seconds());
  report.cubes_per_second = static_cast<double>(report.samples) / report.seconds;
  return report;
}

}  // namespace mrmf
