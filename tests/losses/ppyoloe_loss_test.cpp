#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "losses/assigner.h"
#include "losses/distribution_focal.h"
#include "losses/loss.h"
#include "support/component.h"
#include "support/golden.h"
#include "tensor/boxes.h"
#include "tensor/safetensors.h"

using namespace sgtrain;

namespace {

const tensor::SafetensorsFile& golden() {
  static const auto file =
      tensor::read_safetensors(support::golden("yolonas/ppyoloe_loss.safetensors"));
  return file;
}

std::unique_ptr<losses::Loss> make_loss(int classes, bool varifocal, bool atss, bool batched) {
  return support::make_component<losses::Loss>(
      "PPYoloELoss", {{"num_classes", core::Tree::of(std::int64_t{classes})},
                      {"use_varifocal_loss", core::Tree::of(varifocal)},
                      {"use_static_assigner", core::Tree::of(atss)},
                      {"use_batched_assignment", core::Tree::of(batched)}});
}

struct Heads {
  at::Tensor logits, distri;
  tensor::ModelOutput output;
};

Heads golden_heads() {
  Heads h{golden()["pred_scores"].clone().set_requires_grad(true),
          golden()["pred_distri"].clone().set_requires_grad(true),
          {}};
  h.output = {{"cls_logits", h.logits},
              {"reg_distri", h.distri},
              {"anchors", golden()["anchors"]},
              {"anchor_points", golden()["anchor_points"]},
              {"num_anchors", golden()["num_anchors"]},
              {"strides", golden()["stride_tensor"]}};
  return h;
}

/// Heads of a detector for square images of `side` pixels, strides 8, 16, 32.
Heads random_heads(std::int64_t batch, std::int64_t side, std::int64_t classes,
                   at::ScalarType type = at::kFloat) {
  std::vector<at::Tensor> points, anchors, strides;
  std::vector<std::int64_t> counts;
  for (const std::int64_t stride : {8, 16, 32}) {
    const std::int64_t n = side / stride;
    const at::Tensor line = (at::arange(n, at::kFloat) + 0.5) * stride;
    const at::Tensor x = line.unsqueeze(0).expand({n, n}), y = line.unsqueeze(1).expand({n, n});
    points.push_back(at::stack({x, y}, -1).view({-1, 2}));
    anchors.push_back(at::cat({points.back() - 2.5 * stride, points.back() + 2.5 * stride}, 1));
    strides.push_back(at::full({n * n, 1}, stride, at::kFloat));
    counts.push_back(n * n);
  }
  const at::Tensor all = at::cat(points);
  Heads h{(at::randn({batch, all.size(0), classes}) - 3).to(type).set_requires_grad(true),
          at::randn({batch, all.size(0), 68}).to(type).set_requires_grad(true),
          {}};
  h.output = {{"cls_logits", h.logits},
              {"reg_distri", h.distri},
              {"anchors", at::cat(anchors)},
              {"anchor_points", all},
              {"num_anchors", at::tensor(counts)},
              {"strides", at::cat(strides)}};
  return h;
}

at::Tensor random_targets(std::int64_t batch, std::int64_t per_image, double side,
                          std::int64_t classes) {
  const at::Tensor image = at::arange(batch, at::kFloat).repeat_interleave(per_image);
  const std::int64_t n = batch * per_image;
  const at::Tensor label = at::randint(0, classes, {n}, at::kFloat);
  return at::cat({image.unsqueeze(1), label.unsqueeze(1), at::rand({n, 2}) * side,
                  at::rand({n, 2}) * side / 4 + 4},
                 1);
}

bool finite(const at::Tensor& t) {
  return t.isfinite().all().item<bool>();
}

losses::Predictions golden_predictions() {
  const at::Tensor strides = golden()["stride_tensor"];
  losses::Predictions p{golden()["pred_scores"].sigmoid(),
                        golden()["decoded_boxes_stride_units"] * strides,
                        golden()["anchors"],
                        golden()["anchor_points"],
                        {}};
  for (std::int64_t i = 0; i < golden()["num_anchors"].numel(); ++i) {
    p.num_anchors.push_back(golden()["num_anchors"][i].item<std::int64_t>());
  }
  return p;
}

}  // namespace

TEST_CASE(
    "PPYoloELoss equals the goldens with both assigners, both modes, both classification losses",
    "[losses]") {
  for (const bool varifocal : {true, false}) {
    for (const bool atss : {false, true}) {
      for (const bool batched : {true, false}) {
        for (const bool full : {true, false}) {
          const std::string name =
              std::string(varifocal ? "varifocal" : "focal") + (atss ? ".atss" : ".tal") +
              (batched ? ".batched" : ".sequential") + (full ? ".full" : ".none");
          INFO(name);
          const auto loss = make_loss(5, varifocal, atss, batched);
          Heads h = golden_heads();
          tensor::Targets targets;
          targets.boxes = full ? golden()["targets"] : at::zeros({0, 6});
          const losses::LossResult result = (*loss)(h.output, targets);
          result.total().backward();
          CHECK(at::allclose(result.components(), golden()[name + ".components"], 1e-4, 1e-5));
          const at::Tensor norms = at::stack({h.logits.grad().norm(), h.distri.grad().norm()});
          CHECK(at::allclose(norms, golden()[name + ".grad_l2"], 1e-4, 1e-6));
          for (const auto& [key, grad] :
               {std::pair{".grad_scores", h.logits.grad()}, {".grad_distri", h.distri.grad()}}) {
            const at::Tensor* expected = golden().find(name + key);
            if (expected != nullptr) CHECK(support::relative_to_max(grad, *expected) < 1e-4);
          }
        }
      }
    }
  }
}

TEST_CASE("assigners equal the goldens, by loops and by tensor operations", "[losses]") {
  const losses::Predictions p = golden_predictions();
  const auto truth = losses::GroundTruth::from(golden()["targets"], 3, 5, p.boxes.options());
  for (const std::string name : {"tal", "atss"}) {
    for (const bool tensors : {false, true}) {
      INFO(name << " " << tensors);
      const auto assigner =
          name == "tal" ? losses::make_task_aligned_assigner({}) : losses::make_atss_assigner({});
      const losses::Assignment a = tensors ? assigner->by_tensors(p, truth) : (*assigner)(p, truth);
      const at::Tensor positive = a.row >= 0, own = a.row.clamp_min(0).flatten();
      const at::Tensor labels =
          at::where(positive, truth.labels.index_select(0, own).view_as(a.row), 5);
      CHECK(at::equal(labels, golden()[name + ".labels"]));
      const at::Tensor boxes = truth.boxes.index_select(0, own).view({3, -1, 4});
      const at::Tensor mask = positive.unsqueeze(-1);
      CHECK(at::equal(boxes * mask, golden()[name + ".bboxes"] * mask));
      CHECK(at::allclose(a.score, golden()[name + ".scores"].sum(-1), 1e-4, 1e-7));
    }
  }
}

TEST_CASE("loops and tensor operations assign alike in crowded images", "[losses]") {
  const Heads h = random_heads(3, 96, 4, at::kDouble);
  const at::Tensor strides = h.output["strides"].to(at::kDouble),
                   points = h.output["anchor_points"].to(at::kDouble);
  losses::Predictions p{h.logits.detach().sigmoid(),
                        losses::boxes_from_distances(
                            points / strides, losses::expected_distances(h.distri.detach(), 17)) *
                            strides,
                        h.output["anchors"].to(at::kDouble),
                        points,
                        {144, 36, 9}};
  for (const std::int64_t objects : {1, 10, 200}) {
    const auto truth =
        losses::GroundTruth::from(random_targets(3, objects, 96, 4), 3, 4, p.boxes.options());
    for (const bool sequential : {false, true}) {
      for (const bool atss : {false, true}) {
        INFO(objects << " objects, sequential " << sequential << ", atss " << atss);
        const auto assigner = atss ? losses::make_atss_assigner({.sequential = sequential})
                                   : losses::make_task_aligned_assigner({.sequential = sequential});
        const losses::Assignment loops = (*assigner)(p, truth),
                                 tensors = assigner->by_tensors(p, truth);
        CHECK(at::equal(loops.row, tensors.row));
        CHECK(at::allclose(loops.score, tensors.score, 1e-9, 1e-12));
        // Few objects may all lie far from what random heads predict.
        if (objects == 200) CHECK((loops.row >= 0).any().item<bool>());
      }
    }
  }
}

TEST_CASE("box regression parts equal the goldens", "[losses]") {
  const at::Tensor a = golden()["iou.a"].clone().set_requires_grad(true), b = golden()["iou.b"];
  const at::Tensor loss = 1 - tensor::paired_giou(a, b);
  loss.sum().backward();
  CHECK(at::allclose(loss.unsqueeze(1), golden()["iou.giou_loss"], 1e-4, 1e-6));
  CHECK(support::relative_to_max(a.grad(), golden()["iou.giou_grad_a"]) < 1e-4);
  CHECK(at::allclose(tensor::pairwise_iou(golden()["iou.a"], b).unsqueeze(0),
                     golden()["iou.batch_iou_similarity"], 1e-5, 1e-7));
  const at::Tensor dfl =
      losses::distribution_focal(golden()["dfl.pred"].log_softmax(-1), golden()["dfl.target"]);
  CHECK(at::allclose(dfl.unsqueeze(1), golden()["dfl.loss"], 1e-4, 1e-6));
  CHECK(at::allclose(losses::boxes_from_distances(golden()["distance2bbox.points"],
                                                  golden()["distance2bbox.dist"]),
                     golden()["distance2bbox.out"]));
  const at::Tensor decoded =
      losses::boxes_from_distances(golden()["anchor_points"] / golden()["stride_tensor"],
                                   losses::expected_distances(golden()["pred_distri"], 17));
  CHECK(at::allclose(decoded, golden()["decoded_boxes_stride_units"], 1e-5, 1e-5));
}

TEST_CASE("a batch without objects has a classification term only, and every head a gradient",
          "[losses]") {
  for (const bool atss : {false, true}) {
    for (const bool batched : {false, true}) {
      for (const at::Tensor& boxes : {at::zeros({0, 6}), at::Tensor()}) {
        const auto loss = make_loss(4, true, atss, batched);
        Heads h = random_heads(2, 64, 4);
        tensor::Targets targets;
        targets.boxes = boxes;
        const losses::LossResult result = (*loss)(h.output, targets);
        result.total().backward();
        const at::Tensor parts = result.components();
        CHECK(finite(parts));
        CHECK(parts[0].item<float>() > 0);
        CHECK(parts[1].item<float>() == 0);
        CHECK(parts[2].item<float>() == 0);
        REQUIRE(h.distri.grad().defined());
        CHECK(h.distri.grad().abs().max().item<float>() == 0);
        CHECK(h.logits.grad().abs().max().item<float>() > 0);
      }
    }
  }
}

TEST_CASE("degenerate boxes keep the loss finite and get no anchor", "[losses]") {
  Heads h = random_heads(2, 64, 4);
  tensor::Targets targets;
  targets.boxes =
      at::tensor({0.F, 1.F, 20.F, 20.F, 0.F,  10.F, 0.F, 2.F, 20.F, 20.F, 1e-30F, 1e-30F,
                  1.F, 0.F, 30.F, 30.F, -4.F, 8.F,  1.F, 3.F, 0.F,  0.F,  0.F,    0.F})
          .view({4, 6});
  for (const bool atss : {false, true}) {
    const losses::LossResult result = (*make_loss(4, true, atss, true))(h.output, targets);
    CHECK(finite(result.components()));
    CHECK(result.components()[1].item<float>() == 0);
    result.total().backward();
    CHECK(finite(h.logits.grad()));
    CHECK(finite(h.distri.grad()));
  }
}

TEST_CASE("the order of images in the targets does not matter", "[losses]") {
  Heads h = random_heads(3, 96, 4);
  tensor::Targets sorted, shuffled;
  sorted.boxes = random_targets(3, 6, 96, 4);
  // Rows of each image keep their order; the images are interleaved.
  shuffled.boxes = sorted.boxes.view({3, 6, 6}).transpose(0, 1).reshape({18, 6});
  const auto loss = make_loss(4, true, false, true);
  CHECK(
      at::equal((*loss)(h.output, sorted).components(), (*loss)(h.output, shuffled).components()));
}

TEST_CASE("5,000 objects in an image are assigned, and blocks of objects give what one block gives",
          "[losses]") {
  const std::int64_t side = 256, anchors = (32 * 32 + 16 * 16 + 8 * 8);
  Heads h = random_heads(1, side, 4);
  tensor::Targets targets;
  targets.boxes = random_targets(1, 5000, static_cast<double>(side), 4);
  for (const bool atss : {false, true}) {
    const losses::LossResult dense = (*make_loss(4, true, atss, true))(h.output, targets);
    CHECK(finite(dense.components()));
    dense.total().backward();
    CHECK(finite(h.distri.grad()));
  }

  losses::AnchorOwners once(anchors, at::kFloat), parts(anchors, at::kFloat);
  const at::Tensor ious = at::rand({50, anchors});
  const at::Tensor candidates = std::get<1>(ious.topk(13, 1)), wanted = at::rand({50, 13}) > 0.3;
  once.add(0, candidates, wanted, ious);
  for (std::int64_t first = 0; first < 50; first += 7) {
    const std::int64_t n = std::min<std::int64_t>(7, 50 - first);
    parts.add(first, candidates.narrow(0, first, n), wanted.narrow(0, first, n),
              ious.narrow(0, first, n));
  }
  CHECK(at::equal(once.owners(), parts.owners()));
}

TEST_CASE("the assigner can be switched while training", "[losses]") {
  Heads h = golden_heads();
  tensor::Targets targets;
  targets.boxes = golden()["targets"];
  const auto loss = make_loss(5, true, true, true);
  auto* switchable = dynamic_cast<losses::StaticAssignerSwitch*>(loss.get());
  REQUIRE(switchable != nullptr);
  CHECK(switchable->uses_static_assigner());
  switchable->use_static_assigner(false);
  CHECK(at::allclose((*loss)(h.output, targets).components(),
                     golden()["varifocal.tal.batched.full.components"], 1e-4, 1e-5));
}

TEST_CASE("half-precision heads get a loss in float", "[losses]") {
  Heads h = random_heads(2, 64, 4, at::kBFloat16);
  tensor::Targets targets;
  targets.boxes = random_targets(2, 3, 64, 4);
  const losses::LossResult result = (*make_loss(4, true, false, true))(h.output, targets);
  result.total().backward();
  CHECK(result.components().scalar_type() == at::kFloat);
  CHECK(h.logits.grad().scalar_type() == at::kBFloat16);
  CHECK(finite(h.logits.grad()));
}

TEST_CASE("the dense classification gradient is the derivative of the sum", "[losses]") {
  Heads h = random_heads(1, 64, 3, at::kDouble);
  tensor::Targets targets;
  targets.boxes = random_targets(1, 3, 64, 3);
  for (const bool varifocal : {true, false}) {
    const auto loss = make_loss(3, varifocal, true, true);
    const auto value = [&](const at::Tensor& logits) {
      const tensor::ModelOutput output = {{"cls_logits", logits},
                                          {"reg_distri", h.distri.detach()},
                                          {"anchors", h.output["anchors"]},
                                          {"anchor_points", h.output["anchor_points"]},
                                          {"num_anchors", h.output["num_anchors"]},
                                          {"strides", h.output["strides"]}};
      return (*loss)(output, targets).terms[0].sum;
    };
    const at::Tensor x = h.logits.detach().clone().set_requires_grad(true);
    value(x).backward();
    const at::Tensor direction = at::randn_like(x);
    const double step = 1e-6;
    const at::NoGradGuard no_grad;
    // The ATSS assignment does not depend on the logits.
    const double numeric =
        (value(x + step * direction) - value(x - step * direction)).item<double>() / (2 * step);
    const double exact = (x.grad() * direction).sum().item<double>();
    CHECK(std::abs(numeric - exact) < 1e-5 * std::max(1.0, std::abs(exact)));
  }
}

TEST_CASE("PPYoloELoss says what does not fit", "[losses]") {
  Heads h = random_heads(1, 64, 4);
  tensor::Targets targets;
  targets.boxes = random_targets(1, 2, 64, 4);
  CHECK_THROWS_WITH((*make_loss(3, true, false, true))(h.output, targets),
                    Catch::Contains("4 classes") && Catch::Contains("num_classes=3"));
  targets.boxes[1][1] = 4;
  CHECK_THROWS_WITH((*make_loss(4, true, false, true))(h.output, targets),
                    Catch::Contains("class 4") && Catch::Contains("0..3"));
  targets.boxes[1][1] = 1;
  targets.boxes[1][0] = 1;
  CHECK_THROWS_WITH((*make_loss(4, true, false, true))(h.output, targets),
                    Catch::Contains("batch of 1"));
  CHECK_THROWS_WITH(support::make_component<losses::Loss>("PPYoloELoss"),
                    Catch::Contains("num_classes"));
}
