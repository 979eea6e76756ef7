#include "src/data/channel_facts.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "io/labels.hpp"
#include "io/sample_files.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

constexpr Index kMostSums = Index{1} << 20;  // of all blocks together
constexpr Index kMostBlocks = 1024;
constexpr Index kReadElements = Index{1} << 22;

/// Sums per channel over blocks of samples. Each block is summed by one rank, and the blocks are added in their order,
/// so that nothing depends on the number of ranks. Numbers count from those of the first sample, which keeps the sums
/// exact enough where a mean is large and a deviation small.
class Sums {
 public:
  Sums(const Numbers& numbers, bool log1p)
      : numbers_(numbers),
        log1p_(log1p),
        blocks_(std::clamp<Index>(kMostSums / numbers.channels, 1, std::min(numbers.samples, kMostBlocks))),
        sums_(static_cast<std::size_t>(blocks_ * numbers.channels)),
        origin_(static_cast<std::size_t>(numbers.channels)) {
    numbers.read({0, 1}, [&](ConstSpan values) {
      for (std::size_t c = 0; c < origin_.size(); ++c) origin_[c] = unit(values[c]);
    });
  }

  /// Of this rank's blocks.
  void add(const Comm& comm) {
    const Range mine = piece(blocks_, comm.rank(), comm.size());
    for (Index block = mine.first; block < mine.first + mine.count; ++block) {
      Sum* const sums = sums_.data() + block * numbers_.channels;
      numbers_.read(piece(numbers_.samples, block, blocks_), [&](ConstSpan values) {
        std::size_t channel = 0;
        for (const float value : values) {
          sums[channel].add(value, unit(value) - origin_[channel]);
          if (++channel == origin_.size()) channel = 0;
        }
      });
    }
  }

  /// Brings together the blocks of all ranks: each is one rank's, and zero on the others.
  void share(Comm& comm) {
    std::vector<std::int64_t> bits;  // whose sums are exact
    for (const Sum& sum : sums_)
      for (const double number : {sum.count, sum.x, sum.xx, sum.least, sum.most})
        bits.push_back(sum.count > 0 ? std::bit_cast<std::int64_t>(number) : 0);
    comm.sum(bits);
    auto from = bits.begin();
    for (Sum& sum : sums_)
      for (double* const to : {&sum.count, &sum.x, &sum.xx, &sum.least, &sum.most})
        *to = std::bit_cast<double>(*from++);
  }

  ChannelFacts facts() const {
    ChannelFacts facts;
    for (std::size_t c = 0; c < origin_.size(); ++c) {
      Sum all = sums_[c];
      for (Index block = 1; block < blocks_; ++block)
        all.add(sums_[static_cast<std::size_t>(block * numbers_.channels) + c]);
      const double mean = all.x / all.count;
      facts.least.push_back(all.least);
      facts.most.push_back(all.most);
      facts.mean.push_back(origin_[c] + mean);
      facts.deviation.push_back(all.least == all.most ? 0 : std::sqrt(std::max(0.0, all.xx / all.count - mean * mean)));
    }
    return facts;
  }

 private:
  struct Sum {
    double count = 0, x = 0, xx = 0;
    double least = std::numeric_limits<double>::max(), most = std::numeric_limits<double>::lowest();
    void add(float value, double from_origin) {
      ++count;
      x += from_origin;
      xx += from_origin * from_origin;
      least = std::min<double>(least, value);
      most = std::max<double>(most, value);
    }
    void add(const Sum& other) {
      count += other.count;
      x += other.x;
      xx += other.xx;
      least = std::min(least, other.least);
      most = std::max(most, other.most);
    }
  };
  double unit(float value) const { return log1p_ ? std::log1p(double{value}) : value; }

  const Numbers& numbers_;
  bool log1p_;
  Index blocks_;
  std::vector<Sum> sums_;  // per block and channel
  std::vector<double> origin_;
};

}  // namespace

Numbers samples_of(const DatasetSpec& spec, const DatasetShape& shape) {
  return {"data set '" + spec.samples + "'", shape.samples, shape.sample.channels,
          [&](Range rows, const std::function<void(ConstSpan)>& visit) {
            const SampleFiles files(spec, shape, rows);
            const Index width = shape.sample.per_sample(), step = std::max<Index>(1, kReadElements / width);
            std::vector<std::byte> stored(static_cast<std::size_t>(std::min(step, rows.count) * files.row_bytes()));
            std::vector<float> values(static_cast<std::size_t>(width));
            Scratch scratch;
            for (Index done = 0; done < rows.count; done += step) {
              const Index count = std::min(step, rows.count - done);
              files.read({rows.first + done, count}, stored.data(), scratch);
              for (Index row = 0; row < count; ++row) {
                to_float32(shape.type, stored.data() + row * files.row_bytes(), values);
                visit(values);
              }
            }
          }};
}

Numbers labels_of(const DatasetSpec& spec, const DatasetShape& shape) {
  return {"data set '" + spec.labels + "'", shape.samples, shape.label.channels,
          [&](Range rows, const std::function<void(ConstSpan)>& visit) {
            const Labels labels(spec, shape, rows);
            std::vector<float> values(static_cast<std::size_t>(shape.label.per_sample()));
            for (Index row = 0; row < rows.count; ++row) {
              labels.write({1, 1, 1}, row, values);
              visit(values);
            }
          }};
}

ChannelFacts channel_facts(const Numbers& numbers, bool log1p, Comm& comm) {
  std::optional<Sums> sums;
  collective_try(comm, [&] {
    sums.emplace(numbers, log1p);
    sums->add(comm);
  });
  sums->share(comm);
  return sums->facts();
}

}  // namespace mrmf
