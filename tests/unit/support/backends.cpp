#include "tests/unit/support/backends.hpp"

#include <omp.h>

#include <cmath>
#include <cstdlib>

#include "src/system/backend_choice.hpp"
#include "tests/unit/support/host_view.hpp"

namespace mrmf::test {

bool tests_cuda() { return std::getenv("MRMF_TEST_CUDA") != nullptr; }

bool& used_cuda() {
  static bool used = false;
  return used;
}

std::unique_ptr<Backend> cuda_device(Precision precision, bool graphs) {
  used_cuda() = true;
  cuda::Settings settings;
  settings.precision = precision;
  settings.deterministic = true;  // timing would take long: many small plans are made here
  settings.graphs = graphs;
  return make_cuda_backend(settings);
}

std::unique_ptr<Backend> cuda_backend(Precision precision) { return make_host_view(cuda_device(precision)); }

std::vector<std::unique_ptr<Backend>> backends() {
  std::vector<std::unique_ptr<Backend>> list;
  list.push_back(make_reference_backend());
  list.push_back(make_cpu_backend(2));
  if (tests_cuda()) list.push_back(cuda_backend(Precision::fp32));
  return list;
}

cpu::SharedWorkspace own_workspace() { return std::make_shared<cpu::Workspace>(omp_get_max_threads()); }

double relative_distance(ConstSpan a, ConstSpan b) {
  MRMF_CHECK(a.size() == b.size(), "compared spans have equal length");
  double distance = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    distance += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(norm == 0 ? distance : distance / norm);
}

std::vector<float> uniform(Rng& rng, std::size_t count, double low, double high) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.uniform(low, high));
  return values;
}

}  // namespace mrmf::test
