"""Helper of e2e_bccd.sh: ground truth of a VOC split as COCO JSON, and the comparison of the numbers.

  truth DATA SPLIT OUT       one image id for each line of the list file, from 0
  compare RUN OUTPUT LEAST   in-training validation, evaluate, pycocotools; mAP@0.50 at least LEAST
"""
import contextlib
import csv
import io
import json
import sys
import xml.etree.ElementTree as xml

CLASSES = ["RBC", "WBC", "Platelets"]
NAMES = ["COCO_AP@0.50:0.95", "COCO_AP@0.50", "COCO_AP@0.75", "COCO_AP_small", "COCO_AP_medium", "COCO_AP_large",
         "COCO_AR@1", "COCO_AR@10", "COCO_AR@100", "COCO_AR_small", "COCO_AR_medium", "COCO_AR_large"]


def truth(data, split, out):
    images, annotations = [], []
    with open(f"{data}/ImageSets/Main/{split}.txt") as lines:
        stems = lines.read().split()
    for number, stem in enumerate(stems):
        root = xml.parse(f"{data}/Annotations/{stem}.xml").getroot()
        width, height = (int(root.find(f"size/{side}").text) for side in ("width", "height"))
        images.append({"id": number, "file_name": f"{stem}.jpg", "width": width, "height": height})
        for item in root.iter("object"):
            x1, y1, x2, y2 = (float(item.find(f"bndbox/{key}").text) for key in ("xmin", "ymin", "xmax", "ymax"))
            x1, x2 = max(x1, 0), min(x2, width)
            y1, y2 = max(y1, 0), min(y2, height)
            if x2 <= x1 or y2 <= y1:
                continue  # two boxes of the set have no area
            annotations.append({"id": len(annotations) + 1, "image_id": number, "iscrowd": 0,
                                "category_id": CLASSES.index(item.find("name").text),
                                "bbox": [x1, y1, x2 - x1, y2 - y1], "area": (x2 - x1) * (y2 - y1)})
    with open(out, "w") as file:
        json.dump({"images": images, "annotations": annotations,
                   "categories": [{"id": i, "name": name} for i, name in enumerate(CLASSES)]}, file)


def pycocotools_stats(truth_file, results_file):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
    with contextlib.redirect_stdout(io.StringIO()):
        annotated = COCO(truth_file)
        with open(results_file) as file:
            found = json.load(file)
        if not found:
            return [-1.0] * 12
        scorer = COCOeval(annotated, annotated.loadRes(found), "bbox")
        scorer.evaluate()
        scorer.accumulate()
        scorer.summarize()
    return [float(value) for value in scorer.stats]


def last_validation(run):
    with open(f"{run}/results.csv", newline="") as file:
        row = list(csv.DictReader(file))[-1]
    return {key.strip(): value for key, value in row.items()}


def find(row, name):
    """The validation's column of a metric, whatever stands before its name."""
    keys = [key for key in row if key.lower().endswith(name.lower())]
    if len(keys) != 1:
        sys.exit(f"e2e_bccd: FAILED: results.csv has the columns {keys} for {name}; all: {list(row)}")
    return float(row[keys[0]])


def compare(run, output, least):
    trained = last_validation(run)
    with open(f"{output}/evaluate.json") as file:
        evaluated = json.load(file)
    peer = pycocotools_stats(f"{output}/truth.json", f"{output}/results.json")
    worst = 0.0
    print(f"{'':<20} {'in training':>20} {'evaluate':>20} {'pycocotools on predict':>24}")
    for name, value in zip(NAMES, peer):
        row = (find(trained, name), evaluated[name], value)
        worst = max(worst, max(row) - min(row))
        print(f"{name:<20} {row[0]:>20.12f} {row[1]:>20.12f} {row[2]:>24.12f}")
    best = evaluated["mAP@0.50"]
    print(f"e2e_bccd: largest difference {worst:.3g}; mAP@0.50 {best:.4f}")
    if worst > 1e-9:
        sys.exit("e2e_bccd: FAILED: the numbers differ by more than 1e-9")
    if best < float(least):
        sys.exit(f"e2e_bccd: FAILED: mAP@0.50 is below {least}")


if __name__ == "__main__":
    {"truth": truth, "compare": compare}[sys.argv[1]](*sys.argv[2:])
