#!/usr/bin/env bash
# Sets up, builds (Release) and runs the tests through ctest.
#
#   scripts/test.sh [--all] [ctest arguments…]
#     --all   also the tests labelled `data` (they need ../shared, which is not part of this
#             repository) and `peer` (they compare with Python packages), and the CUDA flavour where
#             a CUDA toolkit is installed. Tests labelled `soak` are run by hand only.
set -euo pipefail
cd "$(dirname "$0")/.."

all=no
if [ "${1:-}" = --all ]; then
  all=yes
  shift
elif [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
  exit 0
fi

build=build/release
left_out=()
labels=soak
setup=()
if [ $all = yes ]; then
  setup=(--peers)
  export SGTRAIN_SG_RECIPES=$PWD/.venv-peer/super_gradients/recipes
  [ -d ../shared ] || left_out+=("tests labelled data: there is no ../shared (they show as skipped)")
else
  labels='soak|data|peer'
  left_out+=("tests labelled data and peer, and the CUDA flavour: scripts/test.sh --all runs them")
fi
left_out+=("tests labelled soak (long): ctest --test-dir $build -L soak")

SECONDS=0
scripts/setup.sh "${setup[@]}"
echo "test: set up in ${SECONDS} s"

scripts/build.sh

for line in "${left_out[@]}"; do
  echo "test: left out: $line"
done
# The label expression is anchored, so that a folder's label cannot match by accident.
exec ctest --test-dir $build -j "$(nproc)" --output-on-failure --no-tests=error -LE "^($labels)\$" "$@"
