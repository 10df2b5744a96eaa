#include <catch2/catch.hpp>

#include "train/epoch_summary.h"

using sgtrain::train::EpochSummary;

TEST_CASE("the epoch tree shows the change since the last and the best epoch", "[train]") {
  EpochSummary summary;
  summary.set_direction("loss", false);
  summary.set_direction("Accuracy", true);
  const double losses[] = {1.0, 0.5, 0.75};
  const double accuracies[] = {0.5, 0.75, 0.625};
  for (int i = 0; i < 3; ++i) {
    summary.update("Train", {{"loss", losses[i]}});
    summary.update("Validation", {{"Accuracy", accuracies[i]}});
  }
  const std::string text = summary.render(2, false);
  CHECK(text.find("SUMMARY OF EPOCH 2") != std::string::npos);
  CHECK(text.find("├── Train\n│   └── loss = 0.7500\n") != std::string::npos);
  CHECK(text.find("Epoch N-1      = 0.5000 (↗ 0.2500)") != std::string::npos);
  CHECK(text.find("└── Accuracy = 0.6250\n") != std::string::npos);
  CHECK(text.find("Epoch N-1      = 0.7500 (↘ -0.1250)") != std::string::npos);
  CHECK(text.find("Best until now = 0.7500 (↘ -0.1250)") != std::string::npos);
}

TEST_CASE("better is green and worse is red, whatever the direction", "[train]") {
  EpochSummary summary;
  summary.set_direction("loss", false);
  summary.update("Train", {{"loss", 1.0}});
  summary.update("Train", {{"loss", 0.5}});
  CHECK(summary.render(1, true).find("\033[32m↘ -0.5000\033[0m") != std::string::npos);
  summary.update("Train", {{"loss", 2.0}});
  CHECK(summary.render(2, true).find("\033[31m↗ 1.5000\033[0m") != std::string::npos);
}

TEST_CASE("the first epoch has nothing to compare with", "[train]") {
  EpochSummary summary;
  summary.update("Train", {{"loss", 1.0}});
  CHECK(summary.render(0, false).find("Epoch N-1") == std::string::npos);
}
