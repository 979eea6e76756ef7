#include "src/simulators/split_files_and_random_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"

namespace mrmf {

FileSplits file_splits(Index samples, const SplitShares& shares) {
  const auto share = [&](double part) { return static_cast<Index>(std::llround(part * static_cast<double>(samples))); };
  const Index validation = share(shares.validation), test = share(shares.test);
  const Index train = samples - validation - test;
  return {{{"train", {0, train}}, {"val", {train, validation}}, {"test", {train + validation, test}}}};
}

void check_splits(const std::string& command, Index samples, const SplitShares& s) {
  const double sum = s.train + s.validation + s.test;
  if (!(s.train > 0) || !(s.validation > 0) || !(s.test > 0) || !(std::abs(sum - 1) < 1e-6))
    throw ConfigError(
        fmt::format("{}: the shares {} / {} / {} of training, validation and test must be positive with sum 1", command,
                    s.train, s.validation, s.test));
  for (const FileSplit& split : file_splits(samples, s))
    if (split.rows.count < 1)
      throw ConfigError(fmt::format("{}: {} samples leave none for the split '{}'; ask for more samples", command,
                                    samples, split.name));
}

void check_planes(const std::string& command, const PlaneSimulation& s, int least) {
  constexpr int most = 1024;
  const auto refuse = [&](const std::string& what) { throw ConfigError(command + ": " + what); };
  if (s.file.empty()) refuse("no file to write is named; give --output FILE");
  if (s.size < least || s.size > most || s.size % 2 != 0)
    refuse(fmt::format("{} pixels per axis asked for; an even number from {} to {} is needed", s.size, least, most));
  if (s.threads < 0) refuse(fmt::format("{} threads asked for; 0 means as many as OpenMP has", s.threads));
  check_splits(command, s.samples, s.shares);
}

SimulationReport report_of(const Timer& timer, Index samples, Comm& comm) {
  SimulationReport report{samples};
  report.seconds = comm.max(timer.seconds());
  report.samples_per_second = static_cast<double>(samples) / report.seconds;
  return report;
}

void create_datasets(Hdf5Output& file, const FileSplits& splits, const std::vector<SplitDataset>& datasets) {
  for (const FileSplit& split : splits)
    for (const SplitDataset& dataset : datasets) {
      std::vector<Index> shape{split.rows.count};
      shape.insert(shape.end(), dataset.row.begin(), dataset.row.end());
      file.create_dataset(std::string(split.name) + "_" + dataset.what, shape, dataset.type);
    }
}

namespace {

template <class T>
void write_rows_of(Hdf5Output& file, const FileSplits& splits, const std::string& what, const Range& block,
                   std::span<const T> values) {
  const Index width = static_cast<Index>(values.size()) / block.count;
  for (const FileSplit& split : splits) {
    const Index first = std::max(block.first, split.rows.first);
    const Index count = std::min(block.first + block.count, split.rows.first + split.rows.count) - first;
    if (count <= 0) continue;
    file.write_rows(std::string(split.name) + "_" + what, first - split.rows.first,
                    values.subspan(static_cast<std::size_t>((first - block.first) * width),
                                   static_cast<std::size_t>(count * width)));
  }
}

}  // namespace

void write_rows(Hdf5Output& file, const FileSplits& splits, const std::string& what, const Range& block,
                ConstSpan values) {
  write_rows_of<float>(file, splits, what, block, values);
}

void write_rows(Hdf5Output& file, const FileSplits& splits, const std::string& what, const Range& block,
                std::span<const std::uint16_t> values) {
  write_rows_of(file, splits, what, block, values);
}

void for_each_block(Comm& comm, Index samples, Index most, const std::function<void(const Range&)>& work,
                    const ProgressFunction& progress) {
  const Range rows = piece(samples, comm.rank(), comm.size());
  collective_try(comm, [&] {
    for (Index done = 0; done < rows.count;) {
      const Range block{rows.first + done, std::min(most, rows.count - done)};
      work(block);
      done += block.count;
      if (progress && comm.root()) progress(done * samples / rows.count, samples);
    }
  });
}

namespace {

std::complex<double> gaussian(std::uint64_t key, int x, int y, int z) {
  const Random4 r =
      philox(key, {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), static_cast<std::uint32_t>(z), 0});
  const auto uniform = [](std::uint32_t high, std::uint32_t low) {  // in (0, 1)
    return (static_cast<double>((std::uint64_t{high} << 20) | (low >> 12)) + 0.5) * 0x1.0p-52;
  };
  return std::polar(std::sqrt(-std::log(uniform(r[0], r[1]))), 2 * std::numbers::pi * uniform(r[2], r[3]));
}

/// Whether this one of the pair k, -k is drawn; the other is its conjugate. Matters where both are stored: at z = 0.
bool drawn(int x, int y, int z) { return z > 0 || x > 0 || (x == 0 && y > 0); }

}  // namespace

std::complex<double> random_mode(std::uint64_t key, int x, int y, int z) {
  return drawn(x, y, z) ? gaussian(key, x, y, z) : std::conj(gaussian(key, -x, -y, -z));
}

}  // namespace mrmf
