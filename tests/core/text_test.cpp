#include <catch2/catch.hpp>

#include "core/text.h"

using namespace sgtrain::core;

TEST_CASE("fuzzy names ignore case, blanks, _ and -", "[core]") {
  CHECK(fuzzy_key("PP_YOLOE-S") == "ppyoloes");
  CHECK(fuzzy_key("DetectionMetrics_050") == fuzzy_key("detection metrics 050"));
}

TEST_CASE("the nearest right name is offered", "[core]") {
  const std::vector<std::string> names{"mAP@0.50", "mAP@0.75", "Accuracy"};
  CHECK(nearest("accurracy", names) == std::vector<std::string>{"Accuracy"});
  CHECK(did_you_mean("zzz", names).empty());
}
