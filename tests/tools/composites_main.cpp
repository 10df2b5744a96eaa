// composites_tool coco|yolo|voc DIR SPLIT IMAGES CLASSES SEED: writes a detection data set of
// Fashion-MNIST composites (tests/support/composites.h), for script tests.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/error.h"
#include "support/composites.h"

int main(int argc, char** argv) {
  using namespace sgtrain;
  if (argc != 7) {
    std::fprintf(stderr, "usage: composites_tool coco|yolo|voc DIR SPLIT IMAGES CLASSES SEED\n");
    return 2;
  }
  const std::string format = argv[1], dir = argv[2], split = argv[3];
  const int classes = std::atoi(argv[5]);
  try {
    const auto composites =
        support::make_composites({.images = std::atoi(argv[4]),
                                  .size = {150, 110},
                                  .max_items = 4,
                                  .classes = classes,
                                  .empty_share = 0.1,
                                  .seed = static_cast<std::uint64_t>(std::atoi(argv[6]))});
    const auto write = format == "coco"   ? support::write_coco
                       : format == "yolo" ? support::write_yolo
                                          : support::write_voc;
    write(dir, split, composites, classes);
    for (const std::string& name : support::composite_classes(classes))
      std::printf("%s\n", name.c_str());
  } catch (const core::Error& error) {
    std::fprintf(stderr, "composites_tool: %s\n", error.what());
    return 1;
  }
  return 0;
}
