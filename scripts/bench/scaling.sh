#!/usr/bin/env bash
# Two processes against one on two cores, and against PyTorch's DistributedDataParallel over Gloo; then
# evaluation on one and two processes. About eight minutes; run it on a machine that does nothing else.
# Arguments go to scaling.py (--rounds N, --steps N, cases). SGTRAIN_PEER_PYTHON names a Python with the
# peers; else a virtual environment is made; --no-peer does without.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
source "$root/scripts/bench/build.sh"
bench_build train_step_tool make_data_tool sgtrain
python=python3
case " $* " in
  *" --no-peer "*) ;;
  *) python=$("$root/scripts/bench/reference_python.sh") ;;
esac
exec "$python" "$root/scripts/bench/scaling.py" --build "$build" "$@"
