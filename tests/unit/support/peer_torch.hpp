// Takes a network through the steps that a script of tests/peers/torch took it through in PyTorch, and compares:
// forward, loss, every gradient, running statistics, evaluation, and what some optimizer steps lead to.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "layers/model.hpp"
#include "src/training/model_and_optimizer.hpp"

namespace mrmf::test {

using Json = nlohmann::json;

/// A file of stored results, by its name in tests/peers/torch.
Json read_golden(const std::string& name);

/// One network of a golden file.
struct PeerCase {
  const Json& golden;             ///< the file
  const Json& with;               ///< its entry of "cases"
  Shape sample;                   ///< n is ignored
  std::vector<LayerSpec> layers;  ///< named as the golden file names their parameters
  double multiple = 4;            ///< of PyTorch's own float32 deviation: what is allowed
};

/// CHECKs every stored result. `fuse` as in ModelSettings.
void compare_with_torch(Backend& backend, const PeerCase& peer, bool fuse);

}  // namespace mrmf::test
