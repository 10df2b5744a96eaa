// Every test case starts from the same random state: a failure repeats, whatever ran before it.
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // listeners, in a file without the main function
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

namespace {

struct SeedListener final : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo&) override { at::manual_seed(20240917); }
};
CATCH_REGISTER_LISTENER(SeedListener)

}  // namespace
