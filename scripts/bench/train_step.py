"""Training steps (forward, loss, backward) of sgtrain and of PyTorch on the same model, batch and
threads, PyTorch in its default layout and at its best flags (channels_last). Runs alternate, so that
a busy machine slows all; ratios are to the better layout.

  train_step.py [--tool PATH] [--python PATH] [--threads N] [--rounds N] [CASE…]
CASE: ARCHITECTURE:SIZE:BATCH:fp32|bf16, by default ResNet-18 and YOLO-NAS-S in both precisions.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CASES = ["resnet18:224:16:fp32", "resnet18:224:16:bf16", "yolo_nas_s:320:8:fp32", "yolo_nas_s:320:8:bf16"]


def measure(command):
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--tool", default=str(HERE.parents[1] / "build" / "tests" / "train_step_tool"))
    parser.add_argument("--python", default=sys.executable, help="a Python with the peers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--clock", choices=["seconds", "cpu_seconds"], default="seconds",
                        help="cpu_seconds with --threads 1 on a machine that does other work")
    parser.add_argument("--pick", choices=["median", "fastest"], default="median",
                        help="step that counts: the fastest on a machine that does other work")
    args = parser.parse_args()
    pick = statistics.median if args.pick == "median" else min
    versions = subprocess.run(
        [args.python, "-c", "import torch, importlib.metadata as m; print(torch.__version__, m.version('super-gradients'))"],
        check=True, capture_output=True, text=True).stdout.split()
    print(f"{datetime.date.today()}; peer: torch {versions[0]}, super-gradients {versions[1]}; {args.threads} threads; "
          f"{args.pick} of {args.rounds} x {args.steps - 2} steps by {args.clock}; load {os.getloadavg()[0]:.1f}")
    print(f"{'':24} {'images/s':>9} {'default':>8} {'ch_last':>8} {'ratio':>6} {'MiB':>7} {'default':>8} {'ch_last':>8} "
          f"{'ratio':>6}")
    for case in args.cases:
        name, size, batch, precision = case.split(":")
        tail = [name, size, batch, precision, str(args.steps), str(args.threads)]
        peer = [args.python, str(HERE / "train_step_peer.py"), *tail]
        commands = {"ours": [args.tool, *tail], "default": [*peer, "default"], "last": [*peer, "channels_last"]}
        seconds = {who: [] for who in commands}
        peak = {who: [] for who in commands}
        for _ in range(args.rounds):
            for who, command in commands.items():
                result = measure(command)
                seconds[who] += result[args.clock][2:]  # the first steps warm caches up
                peak[who].append(result["peak_mib"])
        rate = {who: int(batch) / pick(values) for who, values in seconds.items()}
        memory = {who: statistics.median(values) for who, values in peak.items()}
        print(f"{case:24} {rate['ours']:9.2f} {rate['default']:8.2f} {rate['last']:8.2f} "
              f"{rate['ours'] / max(rate['default'], rate['last']):6.2f} {memory['ours']:7.0f} {memory['default']:8.0f} "
              f"{memory['last']:8.0f} {memory['ours'] / min(memory['default'], memory['last']):6.2f}", flush=True)


if __name__ == "__main__":
    main()
