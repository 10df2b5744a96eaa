"""Images per second of the YOLO-NAS training transforms on a Pascal VOC folder: sgtrain's loader, a
bare hand-written OpenCV loop in Python, and the reference implementation's own data set and
transforms, in one run.

Each runs in one process with one thread, in turns, so that whatever else the machine does hits all
alike; the best and the median of the rounds are printed. Usage: loader.py TOOL VOC_FOLDER
[--rounds N] [--side N] [--threads N ...]
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import random
import statistics
import subprocess
import sys
import time

CLASSES = ["RBC", "WBC", "Platelets"]


def find_names(folder):
    return sorted(os.path.splitext(n)[0] for n in os.listdir(os.path.join(folder, "JPEGImages")))


# ------------------------------------------------------------------ bare loop


def opencv_loop(folder, side, seed):
    """What one would write by hand: every step is one OpenCV call where there is one."""
    import cv2
    import numpy as np
    import xml.etree.ElementTree as ET

    cv2.setNumThreads(0)
    rng = random.Random(seed)
    samples = []
    for name in find_names(folder):
        rows = []
        for obj in ET.parse(os.path.join(folder, "Annotations", name + ".xml")).getroot().iter("object"):
            box = obj.find("bndbox")
            rows.append([float(box.find(k).text) for k in ("xmin", "ymin", "xmax", "ymax")] + [CLASSES.index(obj.find("name").text)])
        samples.append((os.path.join(folder, "JPEGImages", name + ".jpg"), np.array(rows, np.float32).reshape(-1, 5)))

    def load(i):
        image = cv2.imread(samples[i][0])
        ratio = min(side / image.shape[0], side / image.shape[1])
        if ratio != 1.0:
            image = cv2.resize(image, (int(image.shape[1] * ratio), int(image.shape[0] * ratio)))
        boxes = samples[i][1].copy()
        boxes[:, :4] *= ratio
        return image, boxes

    def one(i):
        image, boxes = load(i)
        height, width = image.shape[:2]
        scale = rng.uniform(0.5, 1.5)
        tx, ty = rng.uniform(0.25, 0.75) * width, rng.uniform(0.25, 0.75) * height
        matrix = np.array([[scale, 0, tx - scale * (width // 2)], [0, scale, ty - scale * (height // 2)]])
        image = cv2.warpAffine(image, matrix, (width, height), borderValue=(114, 114, 114))
        before = boxes.copy()
        boxes[:, [0, 2]] = (boxes[:, [0, 2]] * scale + matrix[0, 2]).clip(0, width)
        boxes[:, [1, 3]] = (boxes[:, [1, 3]] * scale + matrix[1, 2]).clip(0, height)
        w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
        area = (before[:, 2] - before[:, 0]) * (before[:, 3] - before[:, 1])
        boxes = boxes[(w > 2) & (h > 2) & (w * h > 0.1 * area)]
        if rng.random() < 0.5:
            image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        if rng.random() < 0.5:
            gains = [int(rng.uniform(-1, 1) * g) * rng.randint(0, 1) for g in (18, 30, 30)]
            steps = np.arange(256)
            tables = np.stack([(steps + gains[0]) % 180, np.clip(steps + gains[1], 0, 255),
                               np.clip(steps + gains[2], 0, 255)], -1).astype(np.uint8)[None]
            image = cv2.cvtColor(cv2.LUT(cv2.cvtColor(image, cv2.COLOR_BGR2HSV), tables), cv2.COLOR_HSV2BGR)
        if rng.random() < 0.5:
            image = cv2.flip(image, 1)
            boxes[:, [0, 2]] = width - boxes[:, [2, 0]]
        if rng.random() < 0.5:
            other, more = load(rng.randrange(len(samples)))
            if rng.random() < 0.5:
                other = cv2.flip(other, 1)
                more[:, [0, 2]] = other.shape[1] - more[:, [2, 0]]
            factor = rng.uniform(0.5, 1.5)
            other = cv2.resize(other, (int(other.shape[1] * factor), int(other.shape[0] * factor)))
            more[:, :4] *= factor
            if factor < 1:
                other = cv2.copyMakeBorder(other, 0, height - other.shape[0], 0, width - other.shape[1], cv2.BORDER_CONSTANT)
            else:
                y = rng.randint(0, other.shape[0] - height)
                x = rng.randint(0, other.shape[1] - width)
                other = other[y : y + height, x : x + width]
                more[:, [0, 2]] -= x
                more[:, [1, 3]] -= y
            image = cv2.addWeighted(image, 0.5, other, 0.5, 0)
            more[:, [0, 2]] = more[:, [0, 2]].clip(0, width)
            more[:, [1, 3]] = more[:, [1, 3]].clip(0, height)
            boxes = np.concatenate([boxes, more])
        image = cv2.copyMakeBorder(image, 0, side - height, 0, side - width, cv2.BORDER_CONSTANT, value=(114, 114, 114))
        targets = np.empty_like(boxes)
        targets[:, 0] = boxes[:, 4]
        targets[:, 1:3] = (boxes[:, 0:2] + boxes[:, 2:4]) / 2
        targets[:, 3:5] = boxes[:, 2:4] - boxes[:, 0:2]
        return image, targets

    return one, len(samples)


# ------------------------------------------------------------------ reference


def reference_loop(folder, side, seed):
    """SuperGradients' data set and transforms, as its recipe lists them; no collation."""
    os.environ["CRASH_HANDLER"] = "FALSE"
    os.environ["SUPER_GRADIENTS_LOG_DIR"] = os.environ.get("TMPDIR", "/tmp")
    from super_gradients.training.datasets.detection_datasets.pascal_voc_format_detection import PascalVOCFormatDetectionDataset
    from super_gradients.training.transforms import transforms as t
    import cv2
    import torch

    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    random.seed(seed)
    dataset = PascalVOCFormatDetectionDataset(
        data_dir=folder, images_dir="JPEGImages", labels_dir="Annotations", all_classes_list=CLASSES,
        input_dim=(side, side), verbose=False,
        transforms=[
            t.DetectionRandomAffine(degrees=0, translate=0.25, scales=[0.5, 1.5], shear=0.0, target_size=None,
                                    filter_box_candidates=True, wh_thr=2, area_thr=0.1, ar_thr=20),
            t.DetectionRGB2BGR(prob=0.5),
            t.DetectionHSV(prob=0.5, hgain=18, sgain=30, vgain=30),
            t.DetectionHorizontalFlip(prob=0.5),
            t.DetectionMixup(input_dim=None, mixup_scale=[0.5, 1.5], prob=0.5, flip_prob=0.5),
            t.DetectionPaddedRescale(input_dim=(side, side), pad_value=114),
            t.DetectionStandardize(max_value=255.0),
            t.DetectionTargetsFormatTransform(output_format="LABEL_CXCYWH"),
        ])
    return dataset.__getitem__, len(dataset)


PEERS = {"opencv": opencv_loop, "reference": reference_loop}


def serve(kind, folder, side):
    """A peer in its own process: one round (one pass over the images) for each line on stdin."""
    one, count = PEERS[kind](folder, side, seed=1)
    for i in range(min(count, 32)):
        one(i)
    print("ready", flush=True)
    rng = random.Random(2)
    for _ in sys.stdin:
        order = list(range(count))
        rng.shuffle(order)
        wall, cpu = time.perf_counter(), time.process_time()
        for i in order:
            one(i)
        print(json.dumps({"images": count, "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}), flush=True)


class Peer:
    def __init__(self, kind, folder, side):
        self.name = kind
        self.process = subprocess.Popen([sys.executable, __file__, "--serve", kind, folder, str(side)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            if line.strip() == "ready":
                return
        raise RuntimeError(f"the {kind} peer does not start")

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"the {self.name} peer ended")


class Ours:
    def __init__(self, tool, folder, side, threads):
        self.command = [tool, folder, "--threads", str(threads), "--epochs", "1", "--side", str(side)]
        self.name = f"sgtrain, {threads} thread{'s' if threads > 1 else ''}"

    def round(self):
        out = json.loads(subprocess.run(self.command, capture_output=True, text=True, check=True).stdout)
        self.stages, self.peak = out["stages"], out["peak_mib"]
        return {"images": out["images"], "wall": out["images"] / out["images_per_s"], "cpu": out["cpu_s"]}


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "?"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--side", type=int, default=640)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    args = parser.parse_args()
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, Python {sys.version.split()[0]}, "
          f"opencv-python {version('opencv-python-headless')}, super-gradients {version('super-gradients')}")
    runners = [Ours(args.tool, args.folder, args.side, n) for n in args.threads]
    for kind in PEERS:
        try:
            runners.append(Peer(kind, args.folder, args.side))
        except RuntimeError as error:
            print(f"left out: {error}")
    rates = {r.name: [] for r in runners}
    cpu_rates = {r.name: [] for r in runners}
    for _ in range(args.rounds):
        for runner in runners:
            result = runner.round()
            rates[runner.name].append(result["images"] / result["wall"])
            cpu_rates[runner.name].append(result["images"] / result["cpu"])
    print(f"{'images/s':28} {'median':>8} {'best':>8} {'per CPU second':>16}")
    for name, values in rates.items():
        print(f"{name:28} {statistics.median(values):8.1f} {max(values):8.1f} {max(cpu_rates[name]):16.1f}")
    first = runners[0].name
    for name in list(rates)[1:]:
        ratio = statistics.median(a / b for a, b in zip(rates[first], rates[name]))
        print(f"{first} is {ratio:.2f} times {name} (median of rounds)")
    print(runners[0].stages)
    print(f"peak memory {runners[0].peak:.0f} MiB")


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "--serve":
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
