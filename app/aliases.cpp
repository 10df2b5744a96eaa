#include "aliases.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string_view>

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::app {
namespace {

using Words = std::vector<std::string>;

enum class Means { kOption, kFlag, kInput, kFolder, kNothing };

/// A key of `predict`: what it means, and the option that it stands for.
struct Key {
  Means means;
  const char* option = "";
};

const std::map<std::string, Key, std::less<>>& predict_keys() {
  static const std::map<std::string, Key, std::less<>> kKeys{
      {"model", {Means::kOption, "--checkpoint"}},
      {"weights", {Means::kOption, "--checkpoint"}},
      {"checkpoint", {Means::kOption, "--checkpoint"}},
      {"source", {Means::kInput}},
      {"conf", {Means::kOption, "--conf"}},
      {"iou", {Means::kOption, "--iou"}},
      {"imgsz", {Means::kOption, "--imgsz"}},
      {"device", {Means::kOption, "--device"}},
      {"batch", {Means::kOption, "--batch-size"}},
      {"batch_size", {Means::kOption, "--batch-size"}},
      {"classes", {Means::kOption, "--classes"}},
      {"max_det", {Means::kOption, "--max-predictions"}},
      {"max_predictions", {Means::kOption, "--max-predictions"}},
      {"output", {Means::kOption, "--output"}},
      {"precision", {Means::kOption, "--precision"}},
      {"num_classes", {Means::kOption, "--num-classes"}},
      {"architecture", {Means::kOption, "--model"}},
      {"agnostic_nms", {Means::kFlag, "--class-agnostic-nms"}},
      {"class_agnostic_nms", {Means::kFlag, "--class-agnostic-nms"}},
      {"recursive", {Means::kFlag, "--recursive"}},
      {"project", {Means::kFolder}},
      {"name", {Means::kFolder}},
      {"save", {Means::kNothing}},
      {"verbose", {Means::kNothing}},
      {"exist_ok", {Means::kNothing}},
      {"show", {Means::kNothing}}};
  return kKeys;
}

bool is_file_of_weights(const std::string& name) {
  static constexpr std::array<std::string_view, 4> kEndings{".pth", ".pt", ".safetensors", ".ckpt"};
  std::error_code ignored;
  return std::filesystem::exists(name, ignored) || name.find('/') != std::string::npos ||
         std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

bool is_on(const std::string& value) {
  const std::string text = core::lower(value);
  return text == "true" || text == "1" || text == "yes";
}

/// `model=x source=y …` behind `predict`.
Words predict_words(const Words& words) {
  Words out;
  std::string project, name;
  for (const std::string& word : words) {
    const auto equal = word.find('=');
    std::error_code ignored;
    if (equal == std::string::npos || word.starts_with("-") ||
        std::filesystem::exists(word, ignored)) {
      out.push_back(word);
      continue;
    }
    const std::string key = word.substr(0, equal);
    std::string value = word.substr(equal + 1);
    const auto found = predict_keys().find(key);
    if (found == predict_keys().end()) {
      if (word.find('/') < equal || word.find('.') < equal) {  // a file's name, reported as missing
        out.push_back(word);
        continue;
      }
      std::vector<std::string> known;
      for (const auto& [own, meaning] : predict_keys()) known.push_back(own);
      throw core::InputError("predict has no key '" + key + "'" + core::did_you_mean(key, known),
                             "command line", "`sgtrain predict --help` lists its options");
    }
    switch (found->second.means) {
      case Means::kNothing:
        break;
      case Means::kFolder:
        (key == "project" ? project : name) = value;
        break;
      case Means::kFlag:
        if (is_on(value)) out.emplace_back(found->second.option);
        break;
      case Means::kInput:
        out.push_back(value);
        break;
      case Means::kOption:
        // `model` may name an architecture instead of a file.
        out.emplace_back(key == "model" && !is_file_of_weights(value) ? "--model"
                                                                      : found->second.option);
        if (value.starts_with("[") && value.ends_with("]"))
          value = value.substr(1, value.size() - 2);
        out.push_back(value);
        break;
    }
  }
  if (!project.empty() || !name.empty()) {
    out.emplace_back("--output");
    out.push_back((std::filesystem::path(project.empty() ? "predictions" : project) / name)
                      .lexically_normal()
                      .string());
  }
  return out;
}

/// `model=best.pth` behind `evaluate`; all other keys are overrides.
Words evaluate_words(const Words& words) {
  constexpr std::string_view kKey = "model=";
  Words out;
  for (const std::string& word : words) {
    if (word.starts_with(kKey) && is_file_of_weights(word.substr(kKey.size()))) {
      out.emplace_back("--checkpoint");
      out.push_back(word.substr(kKey.size()));
    } else {
      out.push_back(word);
    }
  }
  return out;
}

}  // namespace

Words without_aliases(Words words, const Words& commands) {
  static const Words kTasks{"detect", "classify", "segment", "pose"};
  const auto is_in = [](const Words& list, const std::string& word) {
    return std::find(list.begin(), list.end(), word) != list.end();
  };
  const bool yolo = !words.empty() && words.front() == "yolo";
  if (yolo) {
    words.erase(words.begin());
    std::erase_if(words, [](const std::string& word) { return word.starts_with("task="); });
    const auto mode = std::find_if(words.begin(), words.end(), [](const std::string& word) {
      return word.starts_with("mode=");
    });
    if (mode != words.end()) {
      const std::string command = mode->substr(mode->find('=') + 1);
      words.erase(mode);
      words.insert(words.begin() + (!words.empty() && is_in(kTasks, words.front()) ? 1 : 0),
                   command);
    }
  }
  // The task is what the recipe or the checkpoint says.
  if (!words.empty() && is_in(kTasks, words.front()) && !is_in(commands, words.front()) &&
      (yolo || (words.size() > 1 && is_in(commands, words[1])))) {
    words.erase(words.begin());
  }
  if (words.empty()) return words;
  const Words rest(words.begin() + 1, words.end());
  Words out{words.front()};
  const Words translated = words.front() == "predict" ? predict_words(rest)
                           : words.front() == "evaluate" || words.front() == "val"
                               ? evaluate_words(rest)
                               : rest;
  out.insert(out.end(), translated.begin(), translated.end());
  return out;
}

}  // namespace sgtrain::app
