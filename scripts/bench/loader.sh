#!/usr/bin/env bash
# Loader against a bare OpenCV loop and the reference implementation: loader.sh [VOC_FOLDER] [options
# of loader.py]. SGTRAIN_PEER_PYTHON names a Python with the peers; else a virtual environment is made.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
source "$root/scripts/bench/build.sh"
folder=${1:-$root/../shared/data/bccd}
[ $# -gt 0 ] && shift
bench_build loader_bench_tool
python=$("$root/scripts/bench/reference_python.sh")
exec "$python" "$root/scripts/bench/loader.py" "$build/tests/loader_bench_tool" "$folder" "$@"
