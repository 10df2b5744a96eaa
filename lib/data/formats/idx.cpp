// IDX files of the MNIST family, plain or gzip: http://yann.lecun.com/exdb/mnist/
// Images: unsigned bytes [N, H, W] or [N, H, W, 3]; labels: unsigned bytes [N].
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <opencv2/imgproc.hpp>

#include "core/error.h"
#include "core/registry.h"
#include "core/stage_clock.h"
#include "data/dataset.h"

namespace sgtrain::data {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 30;  // of the unpacked file
constexpr std::uint8_t kUnsignedByte = 0x08;

struct IdxArray {
  std::vector<std::uint64_t> dims;
  std::vector<std::uint8_t> bytes;
};

/// gzread() reads plain files too.
class IdxFile {
 public:
  explicit IdxFile(const std::filesystem::path& path)
      : path_(path), file_(::gzopen(path.c_str(), "rb"), ::gzclose) {
    if (!file_) throw core::InputError("cannot open", path.native());
    ::gzbuffer(file_.get(), 1 << 17);
  }
  IdxArray read(std::size_t min_dims, std::size_t max_dims) {
    std::uint8_t head[4] = {};
    fill(head, sizeof head);
    if (head[0] != 0 || head[1] != 0 || head[2] != kUnsignedByte || head[3] < min_dims ||
        head[3] > max_dims) {
      fail(fmt::format("expected an IDX header of unsigned bytes with {} to {} dimensions",
                       min_dims, max_dims));
    }
    IdxArray array;
    std::uint64_t total = 1;
    for (int d = 0; d < head[3]; ++d) {
      std::uint8_t b[4] = {};
      fill(b, sizeof b);
      array.dims.push_back(std::uint64_t{b[0]} << 24 | b[1] << 16 | b[2] << 8 | b[3]);
      if (array.dims.back() == 0) fail("a dimension of size 0");
      if (total > kMaxBytes / array.dims.back()) fail("the header asks for more than 16 GiB");
      total *= array.dims.back();
    }
    // Grown while reading: a damaged header must not decide what is allocated.
    constexpr std::uint64_t kStep = std::uint64_t{64} << 20;
    while (array.bytes.size() < total) {
      const std::size_t have = array.bytes.size();
      array.bytes.resize(have + std::min(kStep, total - have));
      fill(array.bytes.data() + have, array.bytes.size() - have);
    }
    std::uint8_t more = 0;
    if (::gzread(file_.get(), &more, 1) != 0) fail("bytes behind the end of the array");
    return array;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw core::InputError("not a readable IDX file: " + what, path_.native());
  }
  void fill(std::uint8_t* out, std::size_t size) {
    const int got = ::gzread(file_.get(), out, static_cast<unsigned>(size));
    if (got < 0 || static_cast<std::size_t>(got) != size)
      fail("the file ends too early or is damaged");
  }
  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

struct IdxParams {
  std::string where;
  std::string images, labels;  // files, .gz or not; or
  std::string root;            // a folder of the four files under their usual names
  bool train = true;           // the training or the test pair of root
  std::vector<std::string> class_names;

  static IdxParams from(core::Node& node, std::vector<std::string> names) {
    IdxParams p;
    p.where = node.where();
    const bool by_root = !node.describing() && node.has("root");
    p.root = node.get_or("root", "").help("folder of train-images-idx3-ubyte[.gz] …").value();
    p.train = node.get_or("train", true).help("with root: the training or the test pair");
    if (by_root) {
      p.images = node.get_or("images", "").value();
      p.labels = node.get_or("labels", "").value();
      if (!p.images.empty() || !p.labels.empty())
        node.problem("images", "give root, or images and labels");
    } else {
      p.images = node.get<std::string>("images").help("or root").value();
      p.labels = node.get<std::string>("labels").help("or root").value();
    }
    p.class_names = node.get_or("class_names", std::move(names)).value();
    if (!node.describing() && node.has("download")) node.child("download").read_all();
    return p;
  }
};

/// The file, or the same name with or without .gz.
std::filesystem::path find_either(const Paths& paths, const std::string& name, const char* what,
                                  const std::string& where) {
  const std::string other = name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name + ".gz";
  for (const std::filesystem::path& candidate : paths.candidates(other)) {
    if (!std::filesystem::exists(candidate)) continue;
    const auto first = paths.candidates(name);
    const bool named = std::any_of(first.begin(), first.end(),
                                   [](const auto& path) { return std::filesystem::exists(path); });
    if (!named) return candidate;
  }
  return paths.find(name, what, where);
}

class IDXDataset final : public Dataset {
 public:
  struct Params : IdxParams {
    static Params from(core::Node& node) { return {IdxParams::from(node, {})}; }
  };

  IDXDataset(const IdxParams& params, const Paths& paths) : names_(params.class_names) {
    const auto start = std::chrono::steady_clock::now();
    const auto [images, labels] = find_pair(params, paths);
    image_file_ = images;
    report_.title = "IDX " + images.native();
    read_images();
    const IdxArray label_array = IdxFile(labels).read(1, 1);
    if (label_array.dims[0] != static_cast<std::uint64_t>(count_)) {
      throw core::InputError(fmt::format("{} labels for {} images", label_array.dims[0], count_),
                             labels.native());
    }
    labels_ = label_array.bytes;
    check_labels(labels, params.where);
    report_.images = report_.with_boxes = report_.kept = size();
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Task task() const override { return Task::kClassification; }
  std::int64_t size() const override { return count_; }
  const std::vector<std::string>& class_names() const override { return names_; }
  const Report& report() const override { return report_; }
  Annotation annotation(std::int64_t index) const override {
    return {.label = labels_.at(static_cast<std::size_t>(index)),
            .boxes = {},
            .size = image_size_,
            .image_id = index};
  }
  std::string image_path(std::int64_t index) const override {
    return fmt::format("{}[{}]", image_file_.native(), index);
  }
  bool images_are_files() const override { return false; }
  Sample load(std::int64_t index) const override {
    Sample sample;
    sample.label = labels_.at(static_cast<std::size_t>(index));
    const core::StageTimer timer(core::Stage::kDecode);
    const std::size_t bytes =
        static_cast<std::size_t>(image_size_.area()) * static_cast<std::size_t>(channels_);
    const auto* data = pixels_.data() + bytes * static_cast<std::size_t>(index);
    const cv::Mat view(image_size_, CV_8UC(channels_), const_cast<std::uint8_t*>(data));
    if (channels_ == 3) {
      view.copyTo(sample.image);
    } else {
      cv::cvtColor(view, sample.image, cv::COLOR_GRAY2RGB);
    }
    sample.original_size = image_size_;
    sample.index = sample.image_id = index;
    sample.name = fmt::format("{}[{}]", image_file_.filename().native(), index);
    return sample;
  }

 private:
  using Pair = std::pair<std::filesystem::path, std::filesystem::path>;
  static Pair find_pair(const IdxParams& params, const Paths& paths) {
    if (params.root.empty()) {
      return {find_either(paths, params.images, "images", params.where),
              find_either(paths, params.labels, "labels", params.where)};
    }
    const auto root = paths.find(params.root, "root", params.where);
    const std::string part = params.train ? "train" : "t10k";
    for (const char* sub : {"raw", "MNIST/raw", "FashionMNIST/raw", "KMNIST/raw"}) {
      const auto folder = root / sub;
      if (std::filesystem::is_directory(folder)) return pair_in(folder, part, params.where);
    }
    return pair_in(root, part, params.where);
  }
  static Pair pair_in(const std::filesystem::path& folder, const std::string& part,
                      const std::string& where) {
    const Paths inside(folder);
    return {find_either(inside, part + "-images-idx3-ubyte", "images", where),
            find_either(inside, part + "-labels-idx1-ubyte", "labels", where)};
  }
  void read_images() {
    IdxArray array = IdxFile(image_file_).read(3, 4);
    channels_ = array.dims.size() == 4 ? static_cast<int>(array.dims[3]) : 1;
    const bool sides = array.dims[1] <= 65535 && array.dims[2] <= 65535;
    if (!sides || (channels_ != 1 && channels_ != 3)) {
      throw core::InputError("images must be [N, H, W] or [N, H, W, 1 or 3] with sides up to 65535",
                             image_file_.native());
    }
    count_ = static_cast<std::int64_t>(array.dims[0]);
    image_size_ = {static_cast<int>(array.dims[2]), static_cast<int>(array.dims[1])};
    pixels_ = std::move(array.bytes);
  }
  void check_labels(const std::filesystem::path& file, const std::string& where) {
    const int highest = *std::max_element(labels_.begin(), labels_.end());
    if (names_.empty()) {
      for (int i = 0; i <= highest; ++i) names_.push_back(std::to_string(i));
    }
    if (highest < static_cast<int>(names_.size())) return;
    const auto at = std::find_if(labels_.begin(), labels_.end(),
                                 [&](std::uint8_t label) { return label >= names_.size(); });
    throw core::InputError(
        fmt::format("{}[{}]: class {}, but class_names lists {} (ids 0..{})", file.native(),
                    at - labels_.begin(), int{*at}, names_.size(), names_.size() - 1),
        where);
  }

  std::filesystem::path image_file_;
  cv::Size image_size_;
  int channels_ = 1;
  std::int64_t count_ = 0;
  std::vector<std::uint8_t> pixels_, labels_;
  std::vector<std::string> names_;
  Report report_;
};

Dataset::Registry::MakerType parse_with_names(core::Node& node, std::vector<std::string> names) {
  const IdxParams params = IdxParams::from(node, std::move(names));
  return [params](const Paths& paths) { return std::make_unique<IDXDataset>(params, paths); };
}

Dataset::Registry::MakerType parse_mnist(core::Node& node) {
  return parse_with_names(node, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
}

Dataset::Registry::MakerType parse_fashion_mnist(core::Node& node) {
  return parse_with_names(node, {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal",
                                 "Shirt", "Sneaker", "Bag", "Ankle boot"});
}

}  // namespace
SGTRAIN_REGISTER(Dataset, IDXDataset, "IDXDataset");
SGTRAIN_REGISTER_PARSER(Dataset, parse_mnist, "Mnist");
SGTRAIN_REGISTER_PARSER(Dataset, parse_fashion_mnist, "FashionMNIST");
}  // namespace sgtrain::data
