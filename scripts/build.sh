#!/usr/bin/env bash
# Configures and builds Release into build/release with as many jobs as cores and memory allow.
#
#   scripts/build.sh [target…]      all targets when none is named
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac

# A file that includes LibTorch takes up to 2 GB to compile.
jobs=$(nproc)
fit=$(awk '/^MemAvailable/ {print int($2 / 2097152)}' /proc/meminfo)
if [ "$fit" -lt "$jobs" ]; then jobs=$((fit > 0 ? fit : 1)); fi

# ccache finds what another clone of this repository compiled, whatever its folder.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

SECONDS=0
cmake --preset release
targets=()
[ $# -eq 0 ] || targets=(--target "$@")
cmake --build build/release -j "$jobs" "${targets[@]}"
echo "build: done in $SECONDS s with $jobs jobs"
