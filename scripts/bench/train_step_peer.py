"""The peer of train_step_tool: the reference implementation's model and loss in PyTorch, the same
synthetic data. Usage as train_step_tool, then default|channels_last for the layout. With RANK and
WORLD_SIZE it is one of several processes under DistributedDataParallel over Gloo."""
import json
import os
import resource
import sys
import time

os.environ.setdefault("CRASH_HANDLER", "FALSE")
results = os.fdopen(os.dup(1), "w")  # super_gradients silences the other ranks' stdout
import torch  # noqa: E402
from super_gradients.training import models  # noqa: E402
from super_gradients.training.losses import PPYoloELoss  # noqa: E402

plain_conv = torch.nn.Conv2d.forward


def safe_conv(self, x):
    """torch 2.11's CPU backward of a strided 1x1 convolution with few channels corrupts memory in
    channels_last: there the input is subsampled first, which is the same function."""
    if self.kernel_size == (1, 1) and self.stride != (1, 1) and self.in_channels < 16:
        s = self.stride
        return torch.nn.functional.conv2d(x[:, :, :: s[0], :: s[1]], self.weight, self.bias)
    return plain_conv(self, x)


torch.nn.Conv2d.forward = safe_conv


def main():
    name, size, batch, precision, steps = sys.argv[1], *map(int, sys.argv[2:4]), sys.argv[4], int(sys.argv[5])
    if len(sys.argv) > 6:
        torch.set_num_threads(int(sys.argv[6]))
    layout = torch.contiguous_format if sys.argv[7:] == ["default"] else torch.channels_last
    torch.manual_seed(1)
    detection = name.startswith("yolo")
    classes = 80 if detection else 1000
    model = models.get(name, num_classes=classes).to(memory_format=layout).train()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        # YOLO-NAS has parameters that take no part (placeholders of its blocks), as in the reference's trainer.
        model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=detection)
        torch.manual_seed(2 + torch.distributed.get_rank())
    images = torch.rand(batch, 3, size, size).contiguous(memory_format=layout)
    if detection:
        loss_fn = PPYoloELoss(num_classes=classes, use_static_assigner=False)
        n = 10 * batch
        index = torch.arange(batch).repeat_interleave(10).float().unsqueeze(1)
        boxes = torch.cat([torch.rand(n, 2) * 0.5 * size + 0.25 * size, torch.rand(n, 2) * 0.4 * size + 8], 1)
        targets = torch.cat([index, torch.randint(classes, (n, 1)).float(), boxes], 1)
    else:
        loss_fn = torch.nn.CrossEntropyLoss()
        targets = torch.randint(classes, (batch,))
    seconds, cpu_seconds = [], []
    for _ in range(steps):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        for p in model.parameters():
            if p.grad is not None:
                p.grad.zero_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_fn(model(images), targets)
        (loss[0] if detection else loss).backward()
        seconds.append(time.perf_counter() - begin)
        cpu_seconds.append(time.process_time() - cpu_begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if ranks > 1:
        torch.distributed.destroy_process_group()
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_mib": peak}), file=results, flush=True)


main()
