// One micro-batch: images to the device, forward, loss over the global batch, backward.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "data/normalisation.h"
#include "dist/communicator.h"
#include "dist/reducer.h"
#include "loader/loader.h"
#include "losses/loss.h"
#include "models/model.h"
#include "optim/grad_scaler.h"
#include "tensor/batch.h"

namespace sgtrain::train {

/// Images as the network takes them.
struct InputFormat {
  data::Normalisation normalisation;
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;  // or double, where precision is fp64
};

/// uint8 [B,H,W,C] → floating [B,C,H,W] in channels_last memory on the device, normalised there.
at::Tensor to_network_input(const at::Tensor& images, const InputFormat& format);

/// Values of a loss over the images of all ranks: normalised terms as logged, then the total.
struct GlobalLoss {
  std::vector<double> components;
  double images = 0.0;  // of all ranks
  bool finite = true;
  at::Tensor total;  // with graph; its mean over ranks has the gradient of the global batch
};

/// One all-reduce of sums and normalisers over this rank's `images`; equal results on every rank.
GlobalLoss globalise(const losses::LossResult& loss, std::int64_t images, dist::Communicator& comm);

/// Output tensors of reduced precision as float, so that losses and metrics see float only.
tensor::ModelOutput to_float(const tensor::ModelOutput& output);

/// What one micro-batch gave.
struct StepOutput {
  GlobalLoss loss;
  tensor::ModelOutput output;          // detached
  tensor::Targets targets;             // on the device
  std::int64_t height = 0, width = 0;  // of the network input, pixels
};

/// Moments within a step; each may be empty.
struct StepHooks {
  std::function<void(at::Tensor& images, tensor::Targets& targets)> before_forward;
  std::function<void(const StepOutput&)> loss_end, backward_end;  // backward_end: finite only
};

class TrainStep {
 public:
  struct Options {
    InputFormat input;
    at::ScalarType precision = at::kFloat;
    optim::GradScaler* scaler = nullptr;  // fp16 only
  };
  TrainStep(models::Model& model, losses::Loss& loss, dist::Communicator& comm,
            dist::Reducer& reducer, const Options& options)
      : model_(model), loss_(loss), comm_(comm), reducer_(reducer), options_(options) {}

  /// Gradients add up in the parameters. `last` micro-batch of an accumulation: they are reduced
  /// over ranks. A non-finite loss leaves the gradients as they were (on every rank).
  /// @param share  factor of the gradients: 1/k for a mean over k accumulated micro-batches
  /// @param mixing the loader's batch transforms (mixup) and their random stream
  StepOutput run(const tensor::Batch& batch, bool last, double share,
                 const std::vector<std::unique_ptr<loader::BatchTransform>>& mixing,
                 core::Random random, const StepHooks& hooks = {});

 private:
  models::Model& model_;
  losses::Loss& loss_;
  dist::Communicator& comm_;
  dist::Reducer& reducer_;
  Options options_;
};

}  // namespace sgtrain::train
