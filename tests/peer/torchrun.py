# timeout: 300
# Under torchrun two processes join and train what our own launcher's two train, bit for bit; and one that
# is killed ends the job, with nothing left.
import os
import pathlib
import signal
import subprocess
import sys
import time

program, source, build = (os.environ[name] for name in ("SGTRAIN", "SGTRAIN_SOURCE_DIR", "SGTRAIN_BUILD_DIR"))
os.environ["OMP_NUM_THREADS"] = "1"
subprocess.run(["bash", "-c", f'. {source}/tests/support/tiny_run.sh && tiny_set data && tiny_recipe recipe.yaml "$PWD/data" 3'],
               check=True)
torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node=2", program,
            "--recipe", "recipe.yaml"]

done = subprocess.run([*torchrun, "--run-dir", "joined"], capture_output=True, text=True)
assert done.returncode == 0, done.stderr
assert "torchrun started 2 processes, which overrides the recipe's 1" in done.stderr, done.stderr
subprocess.run([program, "--recipe", "recipe.yaml", "--run-dir", "launched", "--device", "cpu", "--processes", "2"], check=True,
               capture_output=True)
for name in ("ckpt_latest.pth", "ckpt_best.pth"):
    compared = subprocess.run([f"{build}/tests/checkpoint_tool", "compare", f"joined/{name}", f"launched/{name}"],
                              capture_output=True, text=True)
    assert compared.returncode == 0, f"{name}: {compared.stdout}"
assert pathlib.Path("joined/logs/rank1.log").stat().st_size > 0


def ranks():
    """Processes of the program that work here."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            here = os.readlink(entry / "cwd") == os.getcwd()
            if here and (entry / "comm").read_text().startswith("sgtrain") and ") Z " not in (entry / "stat").read_text():
                found.append(int(entry.name))
        except OSError:
            pass
    return sorted(found)


def wait_for(condition, what):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"never: {what}")


with open("killed.log", "w") as log:
    job = subprocess.Popen([*torchrun, "--run-dir", "killed", "epochs=10000"], stderr=log)
    wait_for(lambda: "SUMMARY OF EPOCH 0" in pathlib.Path("killed.log").read_text(), "an epoch")
    os.kill(ranks()[-1], signal.SIGKILL)
    assert job.wait(timeout=60) != 0
wait_for(lambda: not ranks(), "all processes gone")
