"""Writes torch.json: learning rates of torch.optim's ten schedulers after each step (torch 2.11)."""
import json
import os

import torch
from torch.optim import lr_scheduler

LR = 0.1
STEPS = 40
# Falls, stalls, jumps and falls again, so that every branch of ReduceLROnPlateau is taken.
VALUES = [1.0 / (1 + k) if k < 8 else 0.125 + 0.01 * ((k * 7) % 5) if k < 30 else 0.1 - 0.001 * k for k in range(STEPS)]
FACTORS = [1.0, 0.9, 0.5, 0.75, 0.1]

CASES = [
    ("StepLR", dict(step_size=3)),
    ("StepLR", dict(step_size=7, gamma=0.5)),
    ("MultiStepLR", dict(milestones=[2, 5, 5, 20], gamma=0.3)),
    ("ConstantLR", dict()),
    ("ConstantLR", dict(factor=0.5, total_iters=10)),
    ("LinearLR", dict()),
    ("LinearLR", dict(start_factor=0.25, end_factor=0.75, total_iters=13)),
    ("ExponentialLR", dict(gamma=0.9)),
    ("CosineAnnealingLR", dict(T_max=10)),
    ("CosineAnnealingLR", dict(T_max=40, eta_min=0.01)),
    ("CosineAnnealingWarmRestarts", dict(T_0=5)),
    ("CosineAnnealingWarmRestarts", dict(T_0=3, T_mult=2, eta_min=0.001)),
    ("CyclicLR", dict(base_lr=0.1, max_lr=0.5, step_size_up=4, cycle_momentum=False)),
    ("CyclicLR", dict(base_lr=0.1, max_lr=0.4, step_size_up=3, step_size_down=5, mode="triangular2", cycle_momentum=False)),
    ("CyclicLR", dict(base_lr=0.1, max_lr=0.4, step_size_up=3, mode="exp_range", gamma=0.95, cycle_momentum=False)),
    ("CyclicLR", dict(base_lr=0.1, max_lr=0.4, step_size_up=3, step_size_down=5)),
    ("CyclicLR", dict(base_lr=0.1, max_lr=0.4, step_size_up=4, mode="triangular2", base_momentum=0.5, max_momentum=0.95)),
    ("LambdaLR", dict(lr_lambda=FACTORS)),
    ("ReduceLROnPlateau", dict(patience=2)),
    ("ReduceLROnPlateau", dict(mode="max", patience=1, factor=0.5, cooldown=2)),
    ("ReduceLROnPlateau", dict(patience=0, factor=0.3, threshold=0.01, threshold_mode="abs", min_lr=0.001)),
    ("ReduceLROnPlateau", dict(mode="max", patience=3, threshold=0.02, threshold_mode="abs", eps=0.005)),
]


def rates(name, params):
    params = dict(params)
    if name == "LambdaLR":
        params["lr_lambda"] = lambda k: FACTORS[min(k, len(FACTORS) - 1)]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR, momentum=0.7)
    scheduler = getattr(lr_scheduler, name)(optimizer, **params)
    group = optimizer.param_groups[0]
    out, momenta = [group["lr"]], [group["momentum"]]
    for value in VALUES:
        optimizer.step()
        scheduler.step(value) if name == "ReduceLROnPlateau" else scheduler.step()
        out.append(float(group["lr"]))
        momenta.append(group["momentum"])
    return dict(rates=out, momenta=momenta)


cases = [dict(scheduler=n, params=p, values=VALUES, **rates(n, p)) for n, p in CASES]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch.json"), "w") as file:
    json.dump(dict(torch=torch.__version__.split("+")[0], lr=LR, cases=cases), file)
