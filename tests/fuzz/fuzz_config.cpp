// A configuration of any bytes is a ConfigError or a configuration, which its own text gives back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "kernels/errors.hpp"
#include "src/config/config.hpp"
#include "src/plan/plan.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const mrmf::Config config = mrmf::parse_config(text, "fuzz.toml", {});
    const mrmf::Config again = mrmf::parse_config(mrmf::to_toml(config), "again.toml", {});
    if (mrmf::to_toml(again) != mrmf::to_toml(config)) std::abort();
    (void)mrmf::make_plan(config);
  } catch (const mrmf::ConfigError&) {
  }
  return 0;
}
