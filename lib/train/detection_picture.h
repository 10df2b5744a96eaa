// A batch's images with ground truth and predictions, for loggers.
#pragma once

#include <opencv2/core.hpp>
#include <span>
#include <string>
#include <vector>

#include "postprocess/postprocess.h"
#include "tensor/batch.h"

namespace sgtrain::train {

/// Each image twice, side by side: left with the targets' boxes, right with the predictions'.
/// @param images  uint8 [B, H, W, 3]
/// @param targets in pixels of these images
/// @param first, last indices of the images, both included; last < 0: to the end
std::vector<cv::Mat> draw_detections(const at::Tensor& images, const tensor::Targets& targets,
                                     std::span<const postprocess::Detections> predictions,
                                     std::span<const std::string> class_names, int first, int last);

}  // namespace sgtrain::train
