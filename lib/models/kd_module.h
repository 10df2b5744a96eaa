// A student network with the teacher it learns from, as SuperGradients' kd_module.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "models/model.h"

namespace sgtrain::models {

/// Images of one normalisation for a network that expects another. One value per channel.
struct NormalizationAdapterParams {
  std::vector<double> mean_original, std_original;  // how the images are normalised
  std::vector<double> mean_required, std_required;  // how the network wants them
  static NormalizationAdapterParams from(core::Node& node);
};

struct KDModuleParams {
  /// Whether the teacher is in evaluation mode always. Otherwise, as in SuperGradients, it follows
  /// the student: in training it normalises with the batch's statistics and updates its running
  /// ones.
  bool run_teacher_on_eval = false;
  std::optional<NormalizationAdapterParams> teacher_input_adapter, student_input_adapter;
};

/// Output: the student's tensors under their names, the teacher's as "teacher.<name>" (no graph).
/// state_dict: "student.…", "teacher.…", then the adapters'. Gradients reach the student alone.
/// @throws core::InputError when the two networks differ in task or number of classes
std::unique_ptr<Model> make_kd_module(std::unique_ptr<Model> student,
                                      std::unique_ptr<Model> teacher, const KDModuleParams& params);

}  // namespace sgtrain::models
