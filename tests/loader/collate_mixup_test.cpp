// CollateMixup: mixtures of a batch with its mirror, and soft labels that say so.
#include <catch2/catch.hpp>

#include "core/error.h"
#include "loader/batch_transform.h"

using namespace sgtrain;
using core::Tree;

namespace {

std::unique_ptr<loader::BatchTransform> make(
    const std::vector<std::pair<std::string, core::TreePtr>>& values) {
  const core::TreePtr tree = Tree::make_map();
  for (const auto& [key, value] : values) tree->set(key, value);
  const auto problems = std::make_shared<core::Problems>();
  const auto maker =
      loader::BatchTransform::registry().parse({"CollateMixup", core::Node(tree, problems)});
  problems->throw_if_any("collate_fn");
  return maker();
}

struct Mixed {
  at::Tensor images, labels;
};

Mixed mix(const loader::BatchTransform& transform, std::uint64_t seed, std::int64_t batch = 6) {
  // Image i is constant i, label i.
  at::Tensor images =
      at::arange(batch, at::kFloat).view({batch, 1, 1, 1}).expand({batch, 3, 8, 8}).contiguous();
  tensor::Targets targets;
  targets.labels = at::arange(batch, at::kLong);
  core::Random random{seed};
  transform.apply(images, targets, random);
  return {images, targets.labels};
}

}  // namespace

TEST_CASE("mixup blends image i with image B-1-i and the labels with it", "[loader]") {
  for (const char* mode : {"batch", "pair", "elem"}) {
    const auto transform = make({{"mixup_alpha", Tree::of(1.0)},
                                 {"label_smoothing", Tree::of(0.0)},
                                 {"num_classes", Tree::of(std::int64_t{6})},
                                 {"mode", Tree::of(mode)}});
    bool mixes = false;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const Mixed out = mix(*transform, seed);
      REQUIRE(out.labels.sizes() == at::IntArrayRef({6, 6}));
      for (std::int64_t i = 0; i < 6; ++i) {
        const double lambda = out.labels[i][i].item<double>();
        CHECK(out.labels[i][5 - i].item<double>() == Approx(1.0 - lambda).margin(1e-6));
        const double expected =
            lambda * static_cast<double>(i) + (1.0 - lambda) * static_cast<double>(5 - i);
        CHECK(out.images[i][0][3][3].item<double>() == Approx(expected).margin(1e-5));
        mixes = mixes || (lambda > 0.01 && lambda < 0.99);
        if (std::string(mode) == "pair") {
          CHECK(out.labels[5 - i][5 - i].item<double>() == Approx(lambda).margin(1e-6));
        }
      }
    }
    CHECK(mixes);
  }
}

TEST_CASE("cutmix pastes a window and corrects lambda to its area", "[loader]") {
  const auto transform = make({{"mixup_alpha", Tree::of(0.0)},
                               {"cutmix_alpha", Tree::of(1.0)},
                               {"label_smoothing", Tree::of(0.0)},
                               {"num_classes", Tree::of(std::int64_t{6})}});
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Mixed out = mix(*transform, seed);
    for (std::int64_t i = 0; i < 6; ++i) {
      const double share =
          out.images[i][0].eq(static_cast<double>(5 - i)).to(at::kFloat).mean().item<double>();
      CHECK(out.labels[i][5 - i].item<double>() == Approx(share).margin(1e-6));
      CHECK(out.labels[i][i].item<double>() == Approx(1.0 - share).margin(1e-6));
    }
  }
}

TEST_CASE("without mixing, labels are smoothed; the same stream gives the same batch", "[loader]") {
  const auto off = make({{"prob", Tree::of(0.0)}, {"num_classes", Tree::of(std::int64_t{10})}});
  const Mixed out = mix(*off, 1, 3);
  CHECK(out.labels[2][2].item<double>() == Approx(0.91));
  CHECK(out.labels[2][0].item<double>() == Approx(0.01));
  CHECK(out.images[2][0][0][0].item<double>() == 2.0);
  CHECK(off->makes_soft_labels());

  const auto on = make({{"mixup_alpha", Tree::of(0.2)}, {"cutmix_alpha", Tree::of(1.0)}});
  CHECK(at::equal(mix(*on, 7).labels, mix(*on, 7).labels));
  CHECK_FALSE(at::equal(mix(*on, 7).labels, mix(*on, 8).labels));

  CHECK_THROWS_WITH(make({{"mixup_alpha", Tree::of(0.0)}}), Catch::Contains("above 0"));
  CHECK_THROWS_WITH(make({{"mode", Tree::of("half")}}), Catch::Contains("batch, pair, elem"));
}
