#include "src/run/fold_folders.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace mrmf {

namespace fs = std::filesystem;

std::string fold_folder(const std::string& folder, int fold) { return fmt::format("{}/fold-{}", folder, fold); }

int first_fold_from(const std::string& folder, int fold) {
  constexpr int kMost = 1000;
  std::error_code none;
  for (int k = fold; k < fold + kMost; ++k)
    if (fs::is_directory(fold_folder(folder, k), none)) return k;
  return -1;
}

std::string folds_config(const std::string& folder) { return folder + "/folds.toml"; }

std::vector<std::string> with_folds(const std::vector<std::string>& folders) {
  std::vector<std::string> all;
  std::error_code none;
  for (const std::string& folder : folders) {
    const bool run = !fs::is_directory(folder, none) || fs::exists(fs::path(folder) / "config.toml", none);
    int fold = 0;
    std::string name = folder;
    while (name.size() > 1 && name.back() == '/') name.pop_back();
    for (; !run && fs::is_directory(fold_folder(name, fold), none); ++fold) all.push_back(fold_folder(name, fold));
    if (fold == 0) all.push_back(folder);
  }
  return all;
}

}  // namespace mrmf
