#include "data/parallel.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

namespace sgtrain::data {

void parallel_ranges(std::size_t count, std::size_t parts,
                     const std::function<void(std::size_t, std::size_t, std::size_t)>& work) {
  parts = std::max<std::size_t>(parts, 1);
  std::vector<std::exception_ptr> failures(parts);
  const auto run = [&](std::size_t part) {
    try {
      work(part, count * part / parts, count * (part + 1) / parts);
    } catch (...) {
      failures[part] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t part = 1; part < parts; ++part) threads.emplace_back(run, part);
    run(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

std::size_t part_count(std::size_t count, std::size_t grain) {
  const std::size_t processors =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 16);
  return std::clamp<std::size_t>(count / std::max<std::size_t>(grain, 1), 1, processors);
}

}  // namespace sgtrain::data
