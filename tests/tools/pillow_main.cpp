// pillow_tool IMAGE FOLDER < operations: one operation a line (tests/support/pillow_ops.h), results
// FOLDER/0.png, 1.png, …
#include <iostream>
#include <string>

#include "image/image.h"
#include "support/pillow_ops.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: pillow_tool IMAGE FOLDER < operations\n";
    return 2;
  }
  try {
    const cv::Mat image = sgtrain::image::decode_file(argv[1]).image;
    int number = 0;
    for (std::string line; std::getline(std::cin, line); ++number) {
      sgtrain::image::write_file(std::string(argv[2]) + "/" + std::to_string(number) + ".png",
                                 sgtrain::support::run_pillow_op(image, line));
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
