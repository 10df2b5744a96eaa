#include <algorithm>
#include <array>

#include "core/text.h"
#include "loader/loader.h"

namespace sgtrain::loader {
namespace {

/// Collate functions that say nothing new here: targets are always collated by task, crowd regions
/// apart.
constexpr std::array<std::string_view, 3> kPlainCollates{
    "DetectionCollateFN", "CrowdDetectionCollateFN", "default_collate"};

void read_collate(core::Node& node, LoaderParams& p) {
  const auto component = node.find_component("collate_fn");
  if (!component) return;
  const std::string key = core::fuzzy_key(component->name);
  const bool plain =
      std::any_of(kPlainCollates.begin(), kPlainCollates.end(),
                  [&](std::string_view name) { return core::fuzzy_key(name) == key; });
  if (plain) {
    core::Node params = component->params;
    params.read_all();
  } else if (auto maker = BatchTransform::registry().parse(*component)) {
    p.batch_transforms.push_back(std::move(maker));
  }
}

}  // namespace

LoaderParams LoaderParams::from(core::Node& n) {
  LoaderParams p;
  p.where = n.where();
  p.batch_size =
      n.get_or("batch_size", std::int64_t{1}).in(1, 1'000'000).help("images, per process");
  p.num_workers =
      n.get_or("num_workers", 0).in(0, 1024).help("threads; 0: load in the main thread");
  p.drop_last = n.get_or("drop_last", false);
  p.shuffle = n.get_or("shuffle", false);
  p.prefetch_factor = n.get_or("prefetch_factor", 2).in(1, 1024).help("batches made ahead");
  p.pin_memory = n.get_or("pin_memory", false);
  p.min_samples = n.find<std::int64_t>("min_samples");
  if (p.min_samples && (*p.min_samples < 1 || *p.min_samples > 1'000'000'000)) {
    n.problem("min_samples", "must be in [1, 1000000000]");
    p.min_samples.reset();
  }
  const std::string bad = n.get_or("bad_images", "skip").one_of({"skip", "error"});
  p.bad_images = bad == "error" ? BadImages::kError : BadImages::kSkip;
  if (const auto sampler = n.find_component("sampler")) {
    p.sampler = data::Sampler::registry().parse(*sampler);
  }
  read_collate(n, p);
  // These steer Python's worker processes; threads of one process need none of them.
  for (const char* key : {"persistent_workers", "worker_init_fn", "timeout", "batch_sampler",
                          "multiprocessing_context", "generator", "pin_memory_device",
                          "auto_wrap_sampler_when_ddp"}) {
    if (n.has(key)) n.child(key).read_all();
  }
  return p;
}

}  // namespace sgtrain::loader
