#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy says which checks) on the files named, else on all of lib/ and app/.
# Slow (a file that includes LibTorch takes 20 s): not part of continuous integration.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy >/dev/null || { echo "tidy: apt-get install clang-tidy" >&2; exit 1; }
# A build folder of its own: clang cannot read g++'s precompiled header.
cmake -S . -B build/tidy -G Ninja -DSGTRAIN_PCH=OFF >/dev/null
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(git ls-files 'lib/*.cpp' 'app/*.cpp')
fi
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/tidy --quiet
