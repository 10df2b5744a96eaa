"""Training steps (forward, loss, backward with all-reduce) on the same global batch: one process with
two threads, two processes with one thread each, and two processes of PyTorch's
DistributedDataParallel over Gloo with the reference implementation's model and loss, in channels_last.
Runs alternate. Then `sgtrain evaluate` on one and on two processes of one thread.

  scaling.py --build DIR [--rounds N] [--steps N] [--images N] [--no-peer] [CASE…]
CASE: ARCHITECTURE:SIZE:GLOBAL_BATCH, by default yolo_nas_s:320:8 and resnet18:224:16, in fp32.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CASES = ["yolo_nas_s:320:8", "resnet18:224:16"]

RECIPE = """
defaults:
  - training_hyperparams: default_train_params
  - arch_params: yolo_nas_s_arch_params
  - checkpoint_params: default_checkpoint_params
  - _self_
  - variable_setup
architecture: yolo_nas_s
arch_params: {num_classes: 2}
train_dataloader:
val_dataloader:
dataset_params:
  train_dataset_params: {}
  train_dataloader_params: {batch_size: 8}
  val_dataset_params:
    data_dir: SET
    images_dir: .
    json_annotation_file: annotations.json
    input_dim: 320
    transforms:
      - DetectionPaddedRescale: {input_dim: 320}
      - DetectionStandardize: {max_value: 255.}
      - DetectionTargetsFormatTransform: {output_format: LABEL_CXCYWH}
  val_dataloader_params: {dataset: COCOFormatDetectionDataset, batch_size: 4, collate_fn: DetectionCollateFN}
training_hyperparams:
  max_epochs: 1
  initial_lr: 0.0001
  loss: PPYoloELoss
  criterion_params: {num_classes: 2, reg_max: 16, use_static_assigner: False}
  valid_metrics_list:
    - DetectionMetrics:
        num_cls: 2
        normalize_targets: True
        post_prediction_callback:
          PPYoloEPostPredictionCallback: {score_threshold: 0.1, nms_top_k: 300, max_predictions: 100, nms_threshold: 0.7}
  metric_to_watch: mAP@0.50:0.95
experiment_name: scaling
multi_gpu: Off
device: cpu
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_ranks(command, ranks, threads):
    """The JSON lines of all ranks of a command that reads RANK and WORLD_SIZE; one: without them."""
    base = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    place = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": str(free_port())}
    started = []
    for rank in range(ranks):
        own = {**place, "RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks > 1 else {}
        started.append(subprocess.Popen(command, env={**base, **own}, stdout=subprocess.PIPE, text=True))
    texts = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit(f"failed: {' '.join(command)}")
    return [json.loads(text.strip().splitlines()[-1]) for text in texts]


def compare(case, args):
    name, size, batch = case.split(":")
    tool = str(args.build / "tests" / "train_step_tool")
    peer = str(HERE / "train_step_peer.py")

    def tail(ranks, threads):
        return [name, size, str(int(batch) // ranks), "fp32", str(args.steps), str(threads)]

    runs = {"one": lambda: run_ranks([tool, *tail(1, 2)], 1, 2), "two": lambda: run_ranks([tool, *tail(2, 1)], 2, 1)}
    if not args.no_peer:
        runs["ddp"] = lambda: run_ranks([sys.executable, peer, *tail(2, 1), "channels_last"], 2, 1)
    steps = {who: [] for who in runs}
    peak = {who: [] for who in runs}
    hidden, communication = [], []
    for _ in range(args.rounds):
        for who, run in runs.items():
            results = run()
            steps[who] += results[0]["seconds"][2:]  # the first steps warm caches up
            peak[who].append(max(result["peak_mib"] for result in results))
            if who == "two":
                hidden += [result["hidden"] for result in results]
                communication += [result["communication_ms"] for result in results]
    rate = {who: int(batch) / statistics.median(values) for who, values in steps.items()}
    memory = {who: statistics.median(values) for who, values in peak.items()}
    print(f"{case}, fp32, images/s of the median step of {args.rounds} x {args.steps - 2}")
    print(f"  1 process x 2 threads {rate['one']:8.2f}")
    print(f"  2 processes x 1 thread {rate['two']:7.2f}   {rate['two'] / rate['one']:.2f} of 1 process (goal 0.95)")
    print(f"  communication {statistics.median(communication):.1f} ms a step, "
          f"{100 * statistics.median(hidden):.0f} % hidden behind backward")
    print(f"  peak memory of a process {memory['two']:.0f} MiB")
    if "ddp" in rate:
        print(f"  PyTorch DDP, Gloo, 2 x 1 {rate['ddp']:5.2f}   ours is {rate['two'] / rate['ddp']:.2f} of it (goal > 1); "
              f"{memory['ddp']:.0f} MiB, ours is {memory['two'] / memory['ddp']:.2f} of it (goal 0.8)")
    sys.stdout.flush()


def evaluation(args):
    program = str(args.build / "bin" / "sgtrain")
    rates = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        subprocess.run([args.build / "tests" / "make_data_tool", "detection", work / "set", str(args.images), "320", "2",
                        "all"], check=True)
        (work / "recipe.yaml").write_text(RECIPE.replace("SET", str(work / "set")))
        for _ in range(args.rounds):
            for ranks in rates:
                out = subprocess.run([program, "evaluate", "recipe.yaml", "--processes", str(ranks)], cwd=work, check=True,
                                     env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
                rates[ranks].append(float(re.search(r"evaluated .* ([0-9.]+) images/s", out.stdout + out.stderr)[1]))
    one, two = (statistics.median(rates[ranks]) for ranks in (1, 2))
    print(f"sgtrain evaluate, yolo_nas_s, 320 x 320, {args.images} images, one thread a process, images/s")
    print(f"  1 process {one:.2f}, 2 processes {two:.2f}: {two / one / 2:.2f} of twice as fast (goal 0.9)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--no-peer", action="store_true")
    args = parser.parse_args()
    print(f"{datetime.date.today()}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for case in args.cases:
        compare(case, args)
    evaluation(args)


if __name__ == "__main__":
    main()
