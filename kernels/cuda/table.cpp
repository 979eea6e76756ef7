// A data set in device memory, in the form in which steps read it: picking a batch is then one kernel of the step.
#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace mrmf::cuda {
namespace {

class DeviceTable final : public SampleTable {
 public:
  DeviceTable(Device& device, const Settings& settings)
      : device_(device),
        settings_(settings),
        row_(static_cast<std::size_t>(device.storage().floats(settings.samples.rows(1)))),
        outputs_(static_cast<std::size_t>(settings.outputs)),
        samples_(bytes(row_, settings.samples.n)),
        targets_(bytes(outputs_, settings.samples.n)),
        x_(bytes(row_, settings.most_rows)),
        y_(bytes(outputs_, settings.most_rows)) {}

  void fill(Index row, const Feed::HostBatch& rows) override {
    const auto at = static_cast<std::size_t>(row);
    const Index count = std::ssize(rows.x) / settings_.samples.per_sample();
    const DeviceBuffer raw(rows.x.size_bytes());
    const cudaStream_t stream = device_.stream();
    MRMF_CUDA(cudaMemcpyAsync(raw.get(), rows.x.data(), rows.x.size_bytes(), cudaMemcpyHostToDevice, stream));
    import_activation(device_.work(), settings_.samples.rows(count), {1, 1, 1}, raw.get<float>(),
                      samples_.get<float>() + at * row_);
    MRMF_CUDA(cudaMemcpyAsync(targets_.get<float>() + at * outputs_, rows.targets.data(), rows.targets.size_bytes(),
                              cudaMemcpyHostToDevice, stream));
    device_.synchronise();
  }

  Feed::Batch gather(const Step& step) override {
    const Index rows = std::ssize(step.ids);
    MRMF_CHECK(rows <= settings_.most_rows, "more rows than the table was made for");
    pick(samples_, row_, rows, x_);
    pick(targets_, outputs_, rows, y_);
    const auto count = static_cast<std::size_t>(rows);
    return {{settings_.samples.rows(rows), {x_.get<float>(), count * row_}},
            {Shape{.n = rows, .channels = settings_.outputs}, {y_.get<float>(), count * outputs_}}};
  }

 private:
  static std::size_t bytes(std::size_t row, Index rows) { return row * static_cast<std::size_t>(rows) * sizeof(float); }
  void pick(const DeviceBuffer& from, std::size_t row, Index rows, const DeviceBuffer& to) {
    gather_rows(device_.stream(), {from.get(), static_cast<Index>(row * sizeof(float)), settings_.first}, rows,
                device_.ids(), to.get());
  }

  Device& device_;
  Settings settings_;
  std::size_t row_, outputs_;  // floats of a row
  DeviceBuffer samples_, targets_, x_, y_;
};

}  // namespace

std::unique_ptr<SampleTable> make_table(Device& device, const SampleTable::Settings& settings) {
  // The rest is left to models, of which a fusion has two, and to libraries.
  constexpr double share = 0.4;
  const Index floats = device.storage().floats(settings.samples.rows(settings.samples.n + settings.most_rows));
  if (settings.samples.n == 0 || !device.settings().resident ||
      4.0 * static_cast<double>(floats) > share * static_cast<double>(device.free_memory()))
    return nullptr;
  return std::make_unique<DeviceTable>(device, settings);
}

}  // namespace mrmf::cuda
