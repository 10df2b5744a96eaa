#!/usr/bin/env bash
# Makes the two archives from a Release build: sgtrain-…-linux-x86_64.tar.gz (the relocatable tree
# with LibTorch) and …-thin.tar.gz (without LibTorch; runs against the torch package of pip).
#
#   scripts/package.sh [full|thin]      both when neither is named; they land in build/release
set -euo pipefail
cd "$(dirname "$0")/.."
which=${1:-both}
case $which in full | thin | both) ;; *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac

scripts/setup.sh
scripts/build.sh sgtrain
cd build/release
[ "$which" = thin ] || cpack --config CPackConfig.cmake
[ "$which" = full ] || cpack --config CPackThin.cmake
