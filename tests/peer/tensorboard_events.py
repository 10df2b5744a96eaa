# Event files that our logger writes, read back by TensorBoard's own loader: a run of ten epochs,
# then a resumed one that writes epochs 5 to 7 again.
import os
import pathlib
import subprocess

import numpy as np
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util

folder = pathlib.Path(os.environ["TMPDIR"]) / "run"
folder.mkdir()
writer = pathlib.Path(os.environ["SGTRAIN_BUILD_DIR"]) / "tests" / "test_loggers"
subprocess.run([writer, "--exact", "write events for the peer"], check=True,
               env={**os.environ, "SGTRAIN_TEST_DIR": str(folder)})

events = event_accumulator.EventAccumulator(str(folder), size_guidance={"images": 0})
events.Reload()
tags = events.Tags()
assert set(tags["scalars"]) == {"train_ppyoloeloss/loss_cls", "lr/default"}, tags
scalars = [(e.step, e.value) for e in events.Scalars("train_ppyoloeloss/loss_cls")]
assert scalars == [(s, float(s)) for s in range(5)] + [(s, 100.0 + s) for s in (5, 6, 7)], scalars
assert all(e.value == np.float32(1e-3) for e in events.Scalars("lr/default"))

text = events.Tensors("averaged_model_performance/text_summary")[-1]
assert tensor_util.make_ndarray(text.tensor_proto).tolist() == [b"**mAP** 0.5"], text
config = events.Tensors("hyper_params/text_summary")[0]
assert b"lr: 0.1" in tensor_util.make_ndarray(config.tensor_proto)[0], config
assert events.SummaryMetadata("hyper_params/text_summary").plugin_data.plugin_name == "text"

image = events.Images("train_images")[-1]
assert (image.width, image.height) == (32, 24), image
assert image.encoded_image_string.startswith(b"\x89PNG")
print("TensorBoard reads", len(scalars), "steps, text and image")
