// What goes into exported files beside the network: maps made of a configuration's normalisation, and limits. The files
// themselves are tested by tests/cli/test_export.py and tests/onnx.
#include <doctest/doctest.h>

#include "src/data/normalisation_and_float32_precision.hpp"
#include "src/export/exported_model.hpp"
#include "src/export/onnx.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

std::string why_not(const Normalisation& normalisation, Index channels) {
  return message<ConfigError>([&] { channel_map(normalisation, channels, "the key"); });
}

}  // namespace

TEST_CASE("export: maps of a normalisation") {
  CHECK(channel_map({}, 3, "key").empty());
  Normalisation each;
  each.mean = {1, 10, -3};
  each.std = {2, 5, 0.25};
  const ChannelMap map = channel_map(each, 3, "key");
  CHECK(map.scale == std::vector<float>{0.5F, 0.2F, 4});
  CHECK(map.shift == std::vector<float>{-0.5F, -2, 12});
  CHECK_FALSE(map.log1p);

  Normalisation one;
  one.log1p = true;
  one.mean_std = true;  // and measured
  one.mean = {3};
  one.std = {2};
  const ChannelMap same = channel_map(one, 4, "key");
  CHECK(same.scale == std::vector<float>(4, 0.5F));
  CHECK(same.shift == std::vector<float>(4, -1.5F));
  CHECK(same.log1p);

  Normalisation logarithm;
  logarithm.log1p = true;
  CHECK(channel_map(logarithm, 2, "key") == ChannelMap{true, {}, {}});
}

TEST_CASE("export: a normalisation that is none") {
  Normalisation wrong;
  wrong.mean_std = true;
  CHECK(why_not(wrong, 3).find("the key: mean and standard deviation are still to be measured") == 0);
  wrong.mean = {1, 2};
  wrong.std = {1, 2};
  CHECK(why_not(wrong, 3).find("2 means and 2 standard deviations for 3 channels") != std::string::npos);
  CHECK(why_not(wrong, 2).empty());
  wrong.std = {};
  CHECK(why_not(wrong, 2).find("2 means and 0 standard deviations") != std::string::npos);
  wrong.std = {1, 0};
  CHECK(why_not(wrong, 2).find("a standard deviation of 0") != std::string::npos);
  wrong.std = {1, 1e-39};  // float32 has no number for 1e39
  CHECK(why_not(wrong, 2).find("1e-39 in channel 1 are too small for float32") != std::string::npos);
  wrong.std = {1, 1e-38};
  CHECK(why_not(wrong, 2).empty());
}

TEST_CASE("export: an ONNX file holds at most 2 GB") {
  require_onnx_size((std::size_t{1} << 31) - (std::size_t{1} << 21));
  const std::string why = message<ConfigError>([] { require_onnx_size(std::size_t{1} << 31); });
  CHECK(why.find("2.1 GB, and an ONNX file holds at most 2.1 GB; write them with --format safetensors") !=
        std::string::npos);
}
