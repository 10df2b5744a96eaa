"""Seconds from the start of the process until the first training batch is ready for forward: the same
recipe (coco2017_yolo_nas_s), data, batch size and workers in sgtrain and the reference implementation.

  first_batch.py SGTRAIN COCO_FOLDER [--python PATH] [--rounds N] [--batch N] [--workers N]
COCO_FOLDER: annotations/{train,val}.json and images/{train,val}, such as shared/data/coco_mini.
"""
import argparse
import datetime
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def seconds_until_ready(command, folder):
    begin = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "first batch ready" in line:
            seconds = time.perf_counter() - begin
            process.kill()
            process.wait()
            return seconds
    sys.exit("no batch became ready:\n" + "".join(lines[-30:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sgtrain")
    parser.add_argument("folder")
    parser.add_argument("--python", default=sys.executable, help="a Python with the reference implementation")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    overrides = [f"dataset_params.train_dataloader_params.batch_size={args.batch}",
                 f"dataset_params.train_dataloader_params.num_workers={args.workers}",
                 "training_hyperparams.mixed_precision=False"]
    for part in ("train", "val"):
        at = f"dataset_params.{part}_dataset_params"
        overrides += [f"{at}.data_dir={os.path.abspath(args.folder)}", f"{at}.subdir=images/{part}",
                      f"{at}.json_file={part}.json"]
    seconds = {"ours": [], "peer": []}
    with tempfile.TemporaryDirectory() as folder:
        ours = [os.path.abspath(args.sgtrain), "-v", "--recipe", "coco2017_yolo_nas_s", "--device", "cpu",
                f"ckpt_root_dir={folder}", *overrides]
        peer = [args.python, str(HERE / "first_batch_peer.py"), "--config-name=coco2017_yolo_nas_s", "multi_gpu=Off",
                "num_gpus=0", "+device=cpu", f"ckpt_root_dir={folder}", *overrides]
        for _ in range(args.rounds):
            seconds["ours"].append(seconds_until_ready(ours, folder))
            seconds["peer"].append(seconds_until_ready(peer, folder))
    median = {who: statistics.median(values) for who, values in seconds.items()}
    version = subprocess.run([args.python, "-c", "import importlib.metadata as m; print(m.version('super-gradients'))"],
                             check=True, capture_output=True, text=True).stdout.strip()
    print(f"{datetime.date.today()}; peer: super-gradients {version}; median of {args.rounds}; batch {args.batch}, "
          f"{args.workers} workers; load {os.getloadavg()[0]:.1f}")
    print(f"start to first batch ready: {median['ours']:.2f} s, peer {median['peer']:.2f} s, "
          f"{median['peer'] / median['ours']:.1f} times sooner")


if __name__ == "__main__":
    main()
