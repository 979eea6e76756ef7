// A trained network as an ONNX file.
#pragma once

#include <string>

#include "src/export/exported_model.hpp"

namespace mrmf {

/// The bytes of an ONNX file, opset kOnnxOpset, float32. Its input "samples" is (batch, positions..., channels), as
/// mrmf reads samples from files, before model.samples is done to them; its output "prediction" is as `mrmf predict`
/// writes it, with model.labels undone. Of yes or no, and of classes, it also has "probability". Any number of rows.
/// ConfigError, which names the layer, for what the format cannot say.
std::string onnx_bytes(const ExportedModel& model);

}  // namespace mrmf
