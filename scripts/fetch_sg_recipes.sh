#!/usr/bin/env bash
# Downloads the super-gradients wheel and unpacks its recipes, which the tests labelled `peer` compose
# and compare with tests/golden/recipes. Prints the folder, the value of SGTRAIN_SG_RECIPES.
#
#   export SGTRAIN_SG_RECIPES=$(scripts/fetch_sg_recipes.sh DIR)
set -euo pipefail
if [ $# -ne 1 ] || [ "$1" = -h ] || [ "$1" = --help ]; then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
version=3.7.1
mkdir -p "$1"
dir=$(cd "$1" && pwd)
recipes=$dir/super_gradients/recipes
if [ ! -f "$dir/super_gradients-$version.done" ]; then
  wheel=super_gradients-$version-py3-none-any.whl
  if [ ! -f "$dir/$wheel" ]; then
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-cache-dir \
      --dest "$dir" "super-gradients==$version" >&2
  fi
  python3 - "$dir/$wheel" "$dir" >&2 <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        if name.startswith("super_gradients/recipes/") and name.endswith(".yaml"):
            wheel.extract(name, sys.argv[2])
PY
  rm -f "$dir/$wheel"
  touch "$dir/super_gradients-$version.done"
fi
echo "$recipes"
