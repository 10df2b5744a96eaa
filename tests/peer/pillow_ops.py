# Our Pillow arithmetic against Pillow and torchvision themselves, on random images and parameters.
# `pillow_ops.py --write-golden FILE` makes tests/golden/pillow/pillow.safetensors.
# timeout: 300
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageEnhance, ImageOps
from torchvision.transforms import functional as F

FILL = (124, 116, 104)
FILTERS = {"nearest": Image.NEAREST, "box": Image.BOX, "bilinear": Image.BILINEAR, "hamming": Image.HAMMING,
           "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
# Largest difference allowed, in levels, where it is not 0.
TOLERANCE = {}


def expected(image, line):
    op, *args = line.split()
    if op == "resize":
        # Columns first, as Pillow always did before version 13 (which picks the cheaper order).
        width, height, method = int(args[0]), int(args[1]), FILTERS[args[2]]
        return image.resize((width, image.height), method).resize((width, height), method)
    if op == "affine":
        return image.transform(image.size, Image.AFFINE, [float(a) for a in args[:6]],
                               resample=FILTERS[args[6]], fillcolor=FILL)
    if op == "rotate":
        return image.rotate(float(args[0]), resample=FILTERS[args[1]], fillcolor=FILL)
    if op == "autocontrast":
        return ImageOps.autocontrast(image)
    if op == "equalize":
        return ImageOps.equalize(image)
    if op == "invert":
        return ImageOps.invert(image)
    if op == "grayscale":
        return image.convert("L").convert("RGB")
    value = float(args[0])
    if op == "solarize":
        return ImageOps.solarize(image, int(value))
    if op == "solarize_add":
        return image.point([min(255, i + int(value)) if i < 128 else i for i in range(256)] * 3)
    if op == "posterize":
        bits = int(value)
        return image if bits >= 8 else image.point([i & ~(2 ** (8 - bits) - 1) for i in range(256)] * 3)
    if op == "hue":
        return F.adjust_hue(image, value)
    enhancer = {"color": ImageEnhance.Color, "contrast": ImageEnhance.Contrast,
                "brightness": ImageEnhance.Brightness, "sharpness": ImageEnhance.Sharpness}[op]
    return enhancer(image).enhance(value)


def make_image(rng, width, height):
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    planes = [127 + 120 * np.sin(rng.uniform(1, 9) * x + rng.uniform(1, 9) * y + rng.uniform(0, 6)) for _ in range(3)]
    noise = np.random.RandomState(rng.randrange(2**31)).randint(-20, 21, (height, width, 3))
    return Image.fromarray(np.clip(np.stack(planes, -1) + noise, 0, 255).astype(np.uint8))


def operations(rng, width, height):
    lines = ["autocontrast", "equalize", "invert", "grayscale", "rotate 90 bilinear", "rotate 180 bilinear"]
    for name in FILTERS:
        for _ in range(3):
            lines.append(f"resize {rng.randint(1, 2 * width)} {rng.randint(1, 2 * height)} {name}")
    for name in ("nearest", "bilinear"):
        for _ in range(2):
            lines.append(f"rotate {rng.uniform(-180, 180):.4f} {name}")
            lines.append(f"affine 1 {rng.uniform(-.3, .3):.4f} 0 0 1 0 {name}")
            lines.append(f"affine 1 0 0 {rng.uniform(-.3, .3):.4f} 1 0 {name}")
            lines.append(f"affine 1 0 {rng.uniform(-.45, .45) * width:.4f} 0 1 0 {name}")
            lines.append(f"affine 1 0 0 0 1 {rng.uniform(-.45, .45) * height:.4f} {name}")
    for op in ("color", "contrast", "brightness", "sharpness"):
        lines += [f"{op} {v:.4f}" for v in (0.0, rng.uniform(0.1, 0.9), 1.0, rng.uniform(1.1, 1.9))]
    lines += [f"hue {v:.4f}" for v in (-0.5, rng.uniform(-.5, .5), 0.0, 0.5)]
    lines += [f"solarize {rng.randint(0, 256)}", f"solarize_add {rng.randint(0, 110)}"]
    lines += [f"posterize {bits}" for bits in (0, 3, 4, 8)]
    return lines


def write_golden(path):
    from safetensors.numpy import save_file
    rng = random.Random(11)
    image = make_image(rng, 45, 31)
    tensors = {"image": np.array(image)}
    for line in operations(rng, 45, 31):
        tensors[line] = np.array(expected(image, line))
    save_file(tensors, path)
    print(len(tensors), "tensors")


def main():
    tool = os.path.join(os.environ["SGTRAIN_BUILD_DIR"], "tests", "pillow_tool")
    worst, checked = {}, 0
    for seed in range(12):
        rng = random.Random(seed)
        width, height = rng.randint(1, 150), rng.randint(1, 150)
        image = make_image(rng, width, height)
        lines = operations(rng, width, height)
        with tempfile.TemporaryDirectory() as folder:
            image.save(f"{folder}/in.png")
            subprocess.run([tool, f"{folder}/in.png", folder], input="\n".join(lines) + "\n", text=True, check=True)
            for number, line in enumerate(lines):
                ours = np.array(Image.open(f"{folder}/{number}.png").convert("RGB")).astype(int)
                theirs = np.array(expected(image, line)).astype(int)
                difference = 999 if ours.shape != theirs.shape else int(np.abs(ours - theirs).max())
                op = line.split()[0]
                checked += 1
                if difference > worst.get(op, (-1, ""))[0]:
                    worst[op] = (difference, f"{width}x{height}: {line}")
    bad = {op: w for op, w in worst.items() if w[0] > TOLERANCE.get(op, 0)}
    print(f"{checked} operations; largest differences: " + ", ".join(f"{op} {w[0]}" for op, w in sorted(worst.items())))
    if bad:
        sys.exit(f"too different: {bad}")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--write-golden":
        write_golden(sys.argv[2])
    else:
        main()
