# The COCO scorer against pycocotools on random data made to be hard: crowds, areas at the borders
# of the ranges, images without objects or without detections, categories without either, more than
# 100 detections in an image and category, ties of scores, identical and zero-size boxes.
# timeout: 900
import contextlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

TOOL = os.environ.get("COCO_EVAL_TOOL") or os.path.join(os.environ["SGTRAIN_BUILD_DIR"], "tests", "coco_eval_tool")
TOLERANCE = 1e-9


def make_case(seed):
    rng = random.Random(seed)
    categories = [{"id": i, "name": f"c{i}"} for i in rng.sample(range(1, 100), rng.choice([1, 2, 5]))]
    image_ids = rng.sample(range(0, 10_000), rng.choice([1, 3, 25]))
    side = rng.choice([60, 300, 1000])
    crowded = rng.random() < 0.3
    ties = rng.random() < 0.5
    annotations, results = [], []

    def box():
        kind = rng.random()
        if kind < 0.1:  # at the border of an area range
            return [rng.randrange(side), rng.randrange(side), *rng.choice([[32, 32], [96, 96], [16, 64], [31.99, 32]])]
        w, h = rng.uniform(0, side / 2), rng.uniform(0, side / 2)
        if kind < 0.15:
            w = 0
        return [rng.uniform(-5, side), rng.uniform(-5, side), w, h]

    for image in image_ids:
        if rng.random() < 0.2:
            objects = []
        else:
            objects = [(rng.choice(categories)["id"], box()) for _ in range(rng.choice([1, 5, 20]))]
        for category, b in objects:
            area = b[2] * b[3] * rng.choice([1, 1, 0.7])
            annotations.append({"id": len(annotations) + 1, "image_id": image, "category_id": category, "bbox": b,
                                "area": area, "iscrowd": int(rng.random() < (0.4 if crowded else 0.05))})
        if rng.random() < 0.15:
            continue
        for _ in range(rng.choice([0, 3, 40, 260])):
            if objects and rng.random() < 0.7:
                category, b = rng.choice(objects)
                spread = rng.choice([0, 0.02, 0.1, 0.3])
                b = [v + rng.gauss(0, spread) * s for v, s in zip(b, [b[2], b[3], b[2], b[3]])]
                b = [b[0], b[1], max(b[2], 0), max(b[3], 0)]
                if rng.random() < 0.1:
                    category = rng.choice(categories)["id"]
            else:
                category, b = rng.choice(categories)["id"], box()
            score = rng.randrange(10) / 10 if ties else rng.random()
            results.append({"image_id": image, "category_id": category, "bbox": b, "score": score})
    if not results:
        results.append({"image_id": image_ids[0], "category_id": categories[0]["id"], "bbox": box(), "score": 0.5})
    rng.shuffle(results)
    images = [{"id": i, "width": side, "height": side} for i in image_ids]
    return {"images": images, "categories": categories, "annotations": annotations}, results


def peer(truth, results):
    with contextlib.redirect_stdout(io.StringIO()):
        gt = COCO()
        gt.dataset = json.loads(json.dumps(truth))
        gt.createIndex()
        evaluation = COCOeval(gt, gt.loadRes(json.loads(json.dumps(results))), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    precision = evaluation.eval["precision"][:, :, :, 0, -1]
    per_category = []
    for k in range(precision.shape[2]):
        p = precision[:, :, k]
        p = p[p > -1]
        per_category.append(p.mean() if p.size else -1.0)
    return list(evaluation.stats), per_category


def ours(truth, results, threads):
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("truth.json", "results.json")]
        for path, data in zip(paths, (truth, results)):
            with open(path, "w") as file:
                json.dump(data, file)
        out = subprocess.run([TOOL, *paths, "--threads", str(threads)], check=True, capture_output=True, text=True)
    values = json.loads(out.stdout)
    return values["stats"], values["category_ap"]


def main():
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    worst = 0.0
    for seed in range(cases):
        truth, results = make_case(seed)
        expected, actual = peer(truth, results), ours(truth, results, 1 + seed % 3)
        for name, a, b in zip(("stats", "category_ap"), expected, actual):
            difference = float(np.max(np.abs(np.array(a) - np.array(b))))
            worst = max(worst, difference)
            if difference > TOLERANCE:
                sys.exit(f"case {seed}: {name} differ by {difference}\npycocotools {a}\nours        {b}")
    print(f"{cases} cases equal to pycocotools, largest difference {worst:.3g}")


main()
