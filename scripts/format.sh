#!/usr/bin/env bash
# Formats every C++ file with clang-format; with --check only tells which ones differ (exit code 1).
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || { echo "format: apt-get install clang-format" >&2; exit 1; }
mode=(-i)
[ "${1:-}" != --check ] || mode=(--dry-run --Werror)
git ls-files -z --cached --others --exclude-standard '*.cpp' '*.h' | xargs -0 -r clang-format "${mode[@]}"
