#include "models/kd_module.h"

#include <fmt/format.h>

#include <numeric>

#include "core/error.h"

namespace sgtrain::models {
namespace {

/// (x + additive) * multiplier, per channel; the two are entries of the state_dict, as in the
/// reference.
class NormalizationAdapter final : public tensor::Module {
 public:
  explicit NormalizationAdapter(const NormalizationAdapterParams& p) {
    const auto column = [](const std::vector<double>& values) {
      return at::tensor(values, at::kFloat).view({-1, 1, 1});
    };
    const at::Tensor original = column(p.std_original);
    add_parameter("additive", additive_,
                  (column(p.mean_original) - column(p.mean_required)) / original);
    add_parameter("multiplier", multiplier_, original / column(p.std_required));
  }
  at::Tensor forward(const at::Tensor& x) override { return (x + additive_) * multiplier_; }

 private:
  at::Tensor additive_, multiplier_;
};

class KDModule final : public Model {
 public:
  KDModule(std::unique_ptr<Model> student, std::unique_ptr<Model> teacher,
           const KDModuleParams& params)
      : teacher_follows_(!params.run_teacher_on_eval),
        student_(adopt("student", std::move(student))),
        teacher_(adopt("teacher", std::move(teacher))) {
    if (params.teacher_input_adapter)
      teacher_adapter_ =
          &add<NormalizationAdapter>("teacher_input_adapter", *params.teacher_input_adapter);
    if (params.student_input_adapter)
      student_adapter_ =
          &add<NormalizationAdapter>("student_input_adapter", *params.student_input_adapter);
    for (const auto& [name, part] : children()) {
      if (part.get() == &student_) continue;
      for (at::Tensor parameter : part->parameters()) parameter.set_requires_grad(false);
    }
  }

  tensor::ModelOutput run(const at::Tensor& images) override {
    teacher_.train(is_training() && teacher_follows_);
    tensor::ModelOutput output = student_.run(adapted(student_adapter_, images));
    const at::NoGradGuard no_grad;
    const tensor::ModelOutput taught = teacher_.run(adapted(teacher_adapter_, images));
    for (const auto& [name, value] : taught.items()) output.set("teacher." + name, value);
    return output;
  }

  Model& trained() override { return student_; }
  Task task() const override { return student_.task(); }
  int num_classes() const override { return student_.num_classes(); }
  int input_channels() const override { return student_.input_channels(); }
  int size_divisor() const override {
    return std::lcm(student_.size_divisor(), teacher_.size_divisor());
  }
  void replace_head(int num_classes) override { student_.replace_head(num_classes); }
  void replace_input_channels(int channels) override { student_.replace_input_channels(channels); }
  std::vector<std::string> unused_parameters() override {
    std::vector<std::string> names{"teacher"};
    for (const std::string& name : student_.unused_parameters()) names.push_back("student." + name);
    return names;
  }
  std::vector<std::string> head_parameters() const override {
    std::vector<std::string> names;
    for (const std::string& name : student_.head_parameters()) names.push_back("student." + name);
    return names;
  }

 private:
  static at::Tensor adapted(NormalizationAdapter* adapter, const at::Tensor& images) {
    return adapter == nullptr ? images : adapter->forward(images);
  }

  bool teacher_follows_;
  Model& student_;
  Model& teacher_;
  NormalizationAdapter* teacher_adapter_ = nullptr;
  NormalizationAdapter* student_adapter_ = nullptr;
};

}  // namespace

NormalizationAdapterParams NormalizationAdapterParams::from(core::Node& node) {
  NormalizationAdapterParams p;
  p.mean_original = node.get<std::vector<double>>("mean_original");
  p.std_original = node.get<std::vector<double>>("std_original");
  p.mean_required = node.get<std::vector<double>>("mean_required");
  p.std_required = node.get<std::vector<double>>("std_required");
  for (const auto* values : {&p.std_original, &p.mean_required, &p.std_required}) {
    if (values->size() == p.mean_original.size()) continue;
    node.problem("means and standard deviations need one value per channel each");
    break;
  }
  for (const auto* values : {&p.std_original, &p.std_required}) {
    for (const double value : *values) {
      if (!(value > 0.0)) node.problem("standard deviations must be above 0");
    }
  }
  return p;
}

std::unique_ptr<Model> make_kd_module(std::unique_ptr<Model> student,
                                      std::unique_ptr<Model> teacher,
                                      const KDModuleParams& params) {
  if (student->task() != teacher->task()) {
    throw core::InputError("student and teacher are networks for different tasks",
                           "teacher_architecture", "choose a teacher for the student's task");
  }
  if (student->num_classes() != teacher->num_classes()) {
    throw core::InputError(
        fmt::format("the student has {} classes, its teacher {}", student->num_classes(),
                    teacher->num_classes()),
        "teacher_arch_params.num_classes",
        "distillation compares their outputs class by class: give both the same num_classes");
  }
  return std::make_unique<KDModule>(std::move(student), std::move(teacher), params);
}

}  // namespace sgtrain::models
