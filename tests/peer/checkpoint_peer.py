#!/usr/bin/env python3
# timeout: 300
"""Checkpoints of PyTorch are read and written back so that torch.load(weights_only=True) gives the same."""
import collections
import os
import subprocess
import sys
import zipfile

import numpy as np
import torch

TOOL = os.path.join(os.environ["SGTRAIN_BUILD_DIR"], "tests", "checkpoint_tool")


class Processing:
    """A class that only this script knows."""

    def __init__(self, size):
        self.size = size


class Harmful:
    def __reduce__(self):
        return os.system, ("touch ran",)


def copy(source, expect_error=None):
    done = subprocess.run([TOOL, "copy", source, "copy.pth"], capture_output=True, text=True)
    if expect_error is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode in (1, 2) and expect_error in done.stderr, (done.returncode, done.stderr)


def same(a, b, path=""):
    if isinstance(a, torch.Tensor):
        assert isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape, path
        wide = {torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2}
        bits = lambda t: t.contiguous().reshape(-1).view(torch.uint8) if t.dtype in wide else t
        x, y = bits(a.detach()), bits(b.detach())
        assert torch.equal(x, y) or torch.equal(torch.isnan(x), torch.isnan(y)), path
    elif isinstance(a, dict):
        assert isinstance(b, dict) and list(a) == list(b), (path, list(a), list(b))
        for key in a:
            same(a[key], b[key], f"{path}.{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{path}[{i}]")
    else:
        assert a == b and isinstance(a, type(b)), (path, a, b)


def round_trip(name, value, expected=None, **options):
    torch.save(value, "x.pth", **options)
    copy("x.pth")
    same(value if expected is None else expected, torch.load("copy.pth", weights_only=True))
    assert zipfile.ZipFile("copy.pth").testzip() is None
    mapped = torch.load("copy.pth", weights_only=True, mmap=True)
    same(value if expected is None else expected, mapped)
    print("same:", name)


torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(8, 2))
net(torch.randn(2, 3, 3, 3)).sum().backward()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
optimizer.step()
base = torch.arange(24.0)
dtypes = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
          torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
          torch.float8_e4m3fn, torch.float8_e5m2]
cases = {
    "a state_dict with _metadata": net.state_dict(),
    "an optimizer": optimizer.state_dict(),
    "parameters": {"p": torch.nn.Parameter(torch.randn(3))},
    "all dtypes": {str(d): torch.tensor([0, 1, 1, 0]).to(d) for d in dtypes},
    "views": {"a": base[3:9], "b": base.view(4, 6).t(), "c": base.view(4, 6)[1:3, ::2], "d": base[:1].expand(5)},
    "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "plain values": {"i": [0, -1, 255, 256, 65536, 2**31, -2**63], "f": [0.0, -0.5, 1e300, float("inf")], "t": (), "n": None,
                     "s": ["", "größe 名前", "x" * 70000], "b": [True, False], 3: {"k": (1, (2, (3,)))},
                     "bytes": bytes(range(256)), "o": collections.OrderedDict(a=1, b=2)},
    "empty": {"e": torch.empty(0, 3), "s": torch.tensor(float("nan"))},
}
for name, value in cases.items():
    round_trip(name, value)
    if name != "all dtypes":
        round_trip(name + ", protocol 4", value, pickle_protocol=4)
    if name not in ("all dtypes",):
        round_trip(name + ", legacy", value, _use_new_zipfile_serialization=False)
numpy_values = {"acc": np.float64(0.5), "n": np.int64(-3), "f": np.float32(0.25), "b": np.bool_(True)}
round_trip("numpy scalars", numpy_values, {"acc": 0.5, "n": -3, "f": 0.25, "b": True})
arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "f": np.asfortranarray(np.arange(6.0).reshape(2, 3))}
round_trip("numpy arrays", arrays, {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in arrays.items()})

torch.save({"net": net.state_dict(), "processing_params": {"p": Processing(64)}}, "x.pth")
copy("x.pth", "class '__main__.Processing' cannot be written")  # read as a name, not as code
for protocol in (2, 4):
    torch.save({"net": {"w": torch.ones(1)}, "x": Harmful()}, "x.pth", pickle_protocol=protocol)
    copy("x.pth", "refused")
assert not os.path.exists("ran")
torch.jit.script(torch.nn.Linear(2, 2)).save("x.pth")
copy("x.pth", "TorchScript")
print("ok")
sys.exit(0)
