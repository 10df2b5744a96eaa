"""COCO box scoring: sgtrain's scorer against pycocotools and faster-coco-eval in one run.

Makes a synthetic result set (ground truth with noise around it), scores it with each, and prints
seconds, peak memory, the ratio and the difference of the 12 numbers. Each peer runs in a process of
its own, so that its memory is its own. Usage: coco_eval.py TOOL [--images N] [--detections N]
[--objects N] [--categories N] [--skip-pycocotools] [--skip-peers]
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

PEER = """
import contextlib, io, json, resource, sys, time
start = time.perf_counter()
if sys.argv[1] == "pycocotools":
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
else:
    from faster_coco_eval import COCO, COCOeval_faster as COCOeval
with contextlib.redirect_stdout(io.StringIO()):
    start = time.perf_counter()
    gt = COCO(sys.argv[2])
    dt = gt.loadRes(sys.argv[3])
    reading = time.perf_counter() - start
    start = time.perf_counter()
    e = COCOeval(gt, dt, "bbox")
    e.evaluate(); e.accumulate(); e.summarize()
    scoring = time.perf_counter() - start
print(json.dumps({"stats": [float(v) for v in e.stats][:12], "reading_s": reading, "scoring_s": scoring,
                  "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def make(folder, images, detections, objects, categories, seed=0):
    rng = np.random.default_rng(seed)
    paths = [os.path.join(folder, "truth.json"), os.path.join(folder, "results.json")]
    objects_written = rows_written = 0
    with open(paths[0], "w") as truth, open(paths[1], "w") as results:
        images_list = [{"id": i + 1, "width": 640, "height": 480} for i in range(images)]
        categories_list = [{"id": k + 1, "name": f"c{k}"} for k in range(categories)]
        truth.write(f'{{"images": {json.dumps(images_list)}, "categories": {json.dumps(categories_list)}, "annotations": [')
        results.write("[")
        for image in range(1, images + 1):
            count = rng.poisson(objects) if objects < 100 else objects
            xy = rng.uniform(0, [560, 400], (count, 2))
            wh = np.exp(rng.normal(3.2, 0.9, (count, 2))).clip(2, 400)
            label, crowd = rng.integers(1, categories + 1, count), rng.random(count) < 0.01
            for j in range(count):
                x, y, w, h = (round(float(v), 2) for v in (*xy[j], *wh[j]))
                truth.write((", " if objects_written else "") + json.dumps(
                    {"id": objects_written + 1, "image_id": image, "category_id": int(label[j]), "bbox": [x, y, w, h],
                     "area": w * h, "iscrowd": int(crowd[j])}))
                objects_written += 1
            of = rng.integers(0, max(count, 1), detections)
            near = (rng.random(detections) < 0.6) & (count > 0)
            noise = rng.normal(0, 0.08, (detections, 4))
            far_xy, far_wh = rng.uniform(0, [560, 400], (detections, 2)), np.exp(rng.normal(3.2, 0.9, (detections, 2)))
            far_label, score = rng.integers(1, categories + 1, detections), rng.random(detections)
            for j in range(detections):
                if near[j]:
                    box = [*(xy[of[j]] + noise[j, :2] * wh[of[j]]), *(wh[of[j]] * np.exp(noise[j, 2:]))]
                    category = label[of[j]]
                else:
                    box, category = [*far_xy[j], *far_wh[j]], far_label[j]
                results.write((", " if rows_written else "") + json.dumps(
                    {"image_id": image, "category_id": int(category), "bbox": [round(float(v), 2) for v in box],
                     "score": round(float(score[j]), 6)}))
                rows_written += 1
        truth.write("]}")
        results.write("]")
    return paths, objects_written, rows_written


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--detections", type=int, default=100)
    parser.add_argument("--objects", type=float, default=7)
    parser.add_argument("--categories", type=int, default=80)
    parser.add_argument("--skip-pycocotools", action="store_true")
    parser.add_argument("--skip-peers", action="store_true")
    args = parser.parse_args()
    print(f"{datetime.date.today()}  {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        paths, objects, rows = make(folder, args.images, args.detections, int(args.objects), args.categories)
        print(f"{args.images} images, {objects} objects, {rows} detections, {args.categories} categories, "
              f"results file {os.path.getsize(paths[1]) / 1e6:.0f} MB")
        runs = {"sgtrain": [args.tool, *paths, "--repeat", "3"]}
        for name, package in (("pycocotools", "pycocotools"), ("faster-coco-eval", "faster-coco-eval")):
            if args.skip_peers or (name == "pycocotools" and args.skip_pycocotools):
                continue
            try:
                version = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                print(f"{name}: not installed, left out")
                continue
            runs[f"{name} {version}"] = [sys.executable, "-c", PEER, name, *paths]
        first = None
        print(f"{'':28}{'read s':>9}{'score s':>9}{'total s':>9}{'peak MiB':>10}{'times ours':>12}{'max diff':>12}")
        for name, command in runs.items():
            out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            first = first or out
            total = out["reading_s"] + out["scoring_s"]
            ratio = total / (first["reading_s"] + first["scoring_s"])
            difference = max(abs(a - b) for a, b in zip(out["stats"], first["stats"]))
            print(f"{name:28}{out['reading_s']:9.3f}{out['scoring_s']:9.3f}{total:9.3f}{out['peak_mib']:10.0f}{ratio:12.1f}"
                  f"{difference:12.2g}")


main()
