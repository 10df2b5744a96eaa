// CIFAR-10 and CIFAR-100, binary version: https://www.cs.toronto.edu/~kriz/cifar.html
// Records of label bytes (CIFAR-100: coarse, fine) and 3072 bytes of planes R, G, B.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/registry.h"
#include "core/stage_clock.h"
#include "core/text.h"
#include "data/dataset.h"
#include "data/formats/labelled_files.h"

namespace sgtrain::data {
namespace {

constexpr int kSide = 32;
constexpr std::size_t kPixels = std::size_t{kSide} * kSide;

struct Layout {
  const char* name;
  const char* folder;
  std::vector<const char*> train, test;
  const char* names_file;
  std::size_t label_bytes;  // before the pixels; the last one is the label
  std::size_t classes;
};

const Layout& cifar10() {
  static const Layout kLayout{"CIFAR-10",
                              "cifar-10-batches-bin",
                              {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                               "data_batch_4.bin", "data_batch_5.bin"},
                              {"test_batch.bin"},
                              "batches.meta.txt",
                              1,
                              10};
  return kLayout;
}
const Layout& cifar100() {
  static const Layout kLayout{
      "CIFAR-100", "cifar-100-binary", {"train.bin"}, {"test.bin"}, "fine_label_names.txt", 2, 100};
  return kLayout;
}

/// An open file of records.
class RecordFile {
 public:
  RecordFile(const std::filesystem::path& path, std::size_t record) : path_(path), record_(record) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (fd_ < 0 || ::fstat(fd_, &status) != 0) {
      throw core::InputError(std::string("cannot open: ") + std::strerror(errno), path.native());
    }
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size == 0 || size % record != 0) {
      ::close(fd_);
      throw core::InputError(
          fmt::format("{} bytes are no whole number of records of {} bytes", size, record),
          path.native(), "download the file again");
    }
    count_ = size / record;
  }
  ~RecordFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  RecordFile(RecordFile&& other) noexcept
      : path_(std::move(other.path_)),
        record_(other.record_),
        count_(other.count_),
        fd_(std::exchange(other.fd_, -1)) {}
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  std::size_t count() const { return count_; }
  const std::filesystem::path& path() const { return path_; }
  void read(std::size_t index, std::size_t offset, std::uint8_t* out, std::size_t size) const {
    std::size_t have = 0;
    while (have < size) {
      const ssize_t got = ::pread(fd_, out + have, size - have,
                                  static_cast<off_t>(index * record_ + offset + have));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) throw core::Error("cannot read", path_.native());
      have += static_cast<std::size_t>(got);
    }
  }

 private:
  std::filesystem::path path_;
  std::size_t record_ = 0, count_ = 0;
  int fd_ = -1;
};

class Cifar : public Dataset {
 public:
  struct Params {
    std::string where;
    std::string root;   // folder of the batches, or the one above
    bool train = true;  // the training or the test part
    static Params from(core::Node& node) {
      Params p{.where = node.where(),
               .root = node.get<std::string>("root").help("folder of the binary version"),
               .train = node.get_or("train", true)};
      if (!node.describing() && node.has("download")) node.child("download").read_all();
      return p;
    }
  };

  Task task() const override { return Task::kClassification; }
  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const std::vector<std::string>& class_names() const override { return names_; }
  const Report& report() const override { return report_; }
  Annotation annotation(std::int64_t index) const override {
    return {.label = labels_.at(static_cast<std::size_t>(index)),
            .boxes = {},
            .size = {kSide, kSide},
            .image_id = index};
  }
  std::string image_path(std::int64_t index) const override {
    const auto [file, record] = locate(index);
    return fmt::format("{}[{}]", file->path().native(), record);
  }
  bool images_are_files() const override { return false; }
  Sample load(std::int64_t index) const override {
    const auto [file, record] = locate(index);
    std::array<std::uint8_t, 3 * kPixels> planes;
    {
      const core::StageTimer timer(core::Stage::kRead);
      file->read(record, layout_.label_bytes, planes.data(), planes.size());
    }
    const core::StageTimer timer(core::Stage::kDecode);
    Sample sample;
    sample.image.create(kSide, kSide, CV_8UC3);
    for (std::size_t i = 0; i < kPixels; ++i) {
      for (std::size_t c = 0; c < 3; ++c) sample.image.data[3 * i + c] = planes[c * kPixels + i];
    }
    sample.label = labels_[static_cast<std::size_t>(index)];
    sample.original_size = {kSide, kSide};
    sample.index = sample.image_id = index;
    sample.name = fmt::format("{}[{}]", file->path().filename().native(), record);
    return sample;
  }

 protected:
  Cifar(const Layout& layout, const Params& params, const Paths& paths) : layout_(layout) {
    const auto root = paths.find(params.root, "root", params.where);
    const auto folder = std::filesystem::exists(root / layout.folder) ? root / layout.folder : root;
    report_.title = fmt::format("{} {}", layout.name, folder.native());
    for (const char* name : params.train ? layout.train : layout.test) {
      if (!std::filesystem::exists(folder / name)) {
        throw core::InputError(
            fmt::format("{} is not in {}", name, folder.native()), params.where,
            fmt::format("download the binary version of {} and unpack it there", layout.name));
      }
      files_.emplace_back(folder / name, layout.label_bytes + 3 * kPixels);
      read_labels(files_.back());
    }
    if (std::filesystem::exists(folder / layout.names_file)) {
      for (const std::string& line : read_lines(folder / layout.names_file)) {
        if (!core::trim(line).empty()) names_.emplace_back(core::trim(line));
      }
      if (names_.size() != layout.classes) {
        throw core::InputError(fmt::format("expected {} class names", layout.classes),
                               (folder / layout.names_file).native());
      }
    } else {
      for (std::size_t i = 0; i < layout.classes; ++i) names_.push_back(std::to_string(i));
    }
    report_.images = report_.with_boxes = report_.kept = size();
  }

 private:
  void read_labels(const RecordFile& file) {
    for (std::size_t i = 0; i < file.count(); ++i) {
      std::uint8_t label = 0;
      file.read(i, layout_.label_bytes - 1, &label, 1);
      if (label >= layout_.classes) {
        throw core::InputError(fmt::format("class {} of {}", label, layout_.classes),
                               fmt::format("{}[{}]", file.path().native(), i),
                               "download the file again");
      }
      labels_.push_back(label);
    }
  }
  std::pair<const RecordFile*, std::size_t> locate(std::int64_t index) const {
    if (index < 0 || index >= size()) throw core::Error("sample out of range", report_.title);
    auto rest = static_cast<std::size_t>(index);
    std::size_t number = 0;
    while (rest >= files_[number].count()) rest -= files_[number++].count();
    return {&files_[number], rest};
  }

  const Layout& layout_;
  std::vector<RecordFile> files_;
  std::vector<std::int32_t> labels_;
  std::vector<std::string> names_;
  Report report_;
};

class Cifar10 final : public Cifar {
 public:
  Cifar10(const Params& params, const Paths& paths) : Cifar(cifar10(), params, paths) {}
};
class Cifar100 final : public Cifar {
 public:
  Cifar100(const Params& params, const Paths& paths) : Cifar(cifar100(), params, paths) {}
};

}  // namespace
SGTRAIN_REGISTER(Dataset, Cifar10, "Cifar10");
SGTRAIN_REGISTER(Dataset, Cifar100, "Cifar100");
}  // namespace sgtrain::data
