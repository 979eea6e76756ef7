// Keys of the named networks: which one, and its sizes.
#include "src/config/keys.hpp"
#include "src/config/presets.hpp"

#define MRMF_FIELD(member) \
  [](auto& s) -> auto& { return s.member; }

namespace mrmf {

template <>
std::vector<std::string> words_of<NormKind>() {
  return {"batch", "group"};
}

std::vector<Key<ModelConfig>> preset_keys() {
  std::vector<std::string> presets;
  for (const Preset& preset : preset_list()) presets.push_back(preset.name);
  const std::string sized = " (unet, unet3d, resnet)";
  return {
      make_key<ModelConfig>("preset", MRMF_FIELD(preset), one_of(presets), "a network from the list of `mrmf presets`"),
      make_key<ModelConfig>("levels", MRMF_FIELD(sizes.levels), within(1, 8),
                            "levels of a preset" + sized + "; its own unless set"),
      make_key<ModelConfig>(
          "width", MRMF_FIELD(sizes.width), within(1, 4096),
          "channels of a preset's first level, doubled at each further one" + sized + "; its own unless set"),
      make_key<ModelConfig>("outputs", MRMF_FIELD(sizes.outputs), within(1, 65536),
                            "channels of a preset's output: numbers, or classes" + sized + "; 1 unless set"),
      make_key<ModelConfig>("norm", MRMF_FIELD(sizes.norm), one_of(words_of<NormKind>()),
                            "norm of a preset" + sized + "; its own unless set")};
}

}  // namespace mrmf

#undef MRMF_FIELD
