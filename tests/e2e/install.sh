#!/usr/bin/env bash
# The installed tree runs from another folder, finds its recipes and LibTorch by itself, takes a
# plug-in that was built against it, and its thin part runs against a LibTorch given by hand.
# timeout: 900
set -euo pipefail
fail() { echo "FAILED: $*"; exit 1; }
# prints TEXT COMMAND…: the command succeeds and its output holds the text (grep reads it to the end, so
# that the command is not killed by a closed pipe)
prints() { clean "${@:2}" | grep "$1" >/dev/null; }
clean() { env -i PATH=/usr/bin:/bin HOME="$TMPDIR" "$@"; }

for component in program runtime libtorch development; do
  cmake --install "$SGTRAIN_BUILD_DIR" --prefix "$TMPDIR/first" --component $component --strip >/dev/null
done
mv "$TMPDIR/first" "$TMPDIR/moved"
root=$TMPDIR/moved
program=$root/bin/sgtrain

prints '[0-9]\.[0-9]' "$program" --version || fail "--version"
clean "$program" doctor || fail "doctor"
prints training_hyperparams "$program" export-recipe --recipe quickstart || fail "shipped recipe not found"
prints CrossEntropyLoss "$program" list losses || fail "list losses"
outside=$(clean ldd "$program" | grep -E "$SGTRAIN_SOURCE_DIR|not found" || true)
[ -z "$outside" ] || fail "libraries from the build tree, or missing: $outside"
heavy=$(clean ldd "$program" | grep -E 'python|gdal|avcodec|imgcodecs|videoio|onnx|torch_python' || true)
[ -z "$heavy" ] || fail "libraries that the program must not link: $heavy"

# A plug-in, built as a user would.
build_plugin() {
  cmake -S "$SGTRAIN_SOURCE_DIR/app/example_plugin" -B "$TMPDIR/plugin" -DCMAKE_PREFIX_PATH="$root" \
    -DCMAKE_BUILD_TYPE=Release && cmake --build "$TMPDIR/plugin"
}
build_plugin >"$TMPDIR/log" 2>&1 || { cat "$TMPDIR/log"; fail "the plug-in does not build against the installation"; }
# quickstart's criterion_params belong to the loss that it names.
chosen=("~training_hyperparams.criterion_params" "training_hyperparams.loss={HalfSquaredErrorLoss: {scale: 2.0}}")
if clean "$program" check --recipe quickstart "${chosen[@]}" >"$TMPDIR/log" 2>&1; then
  fail "a loss of a plug-in is known without the plug-in"
fi
clean "$program" check --recipe quickstart "${chosen[@]}" "+plugins=[$TMPDIR/plugin/half_squared_error.so]" \
  >"$TMPDIR/log" 2>&1 || { cat "$TMPDIR/log"; fail "check with the plug-in's loss"; }
clean "$program" check --recipe quickstart --plugin "$TMPDIR/plugin/half_squared_error.so" "${chosen[@]}" \
  >"$TMPDIR/log" 2>&1 || { cat "$TMPDIR/log"; fail "check with --plugin"; }
prints HalfSquaredErrorLoss "$program" list losses --plugin "$TMPDIR/plugin/half_squared_error.so" ||
  fail "list does not show the plug-in's loss"
if clean "$program" check --recipe quickstart --no-exec --plugin "$TMPDIR/plugin/half_squared_error.so" "${chosen[@]}" \
  >"$TMPDIR/log" 2>&1; then
  fail "--no-exec opened a plug-in"
fi
grep -q 'refused by --no-exec' "$TMPDIR/log" || { cat "$TMPDIR/log"; fail "--no-exec says nothing"; }
# Another version's plug-in: the text that names it is changed in the file.
sed 's/sgtrain [0-9]/sgtrain 9/' "$TMPDIR/plugin/half_squared_error.so" >"$TMPDIR/plugin/other.so"
if ! cmp -s "$TMPDIR/plugin/half_squared_error.so" "$TMPDIR/plugin/other.so"; then
  if clean "$program" list losses --plugin "$TMPDIR/plugin/other.so" >"$TMPDIR/log" 2>&1; then
    fail "a plug-in of another version was opened"
  fi
  grep -qi 'built' "$TMPDIR/log" || { cat "$TMPDIR/log"; fail "the version mismatch is not explained"; }
else
  fail "the plug-in does not name the version of sgtrain it was built for"
fi

# Thin: no LibTorch inside, every other library is.
for component in runtime thin; do
  cmake --install "$SGTRAIN_BUILD_DIR" --prefix "$TMPDIR/thin" --component $component --strip >/dev/null
done
[ ! -e "$TMPDIR/thin/lib/sgtrain/libtorch" ] || fail "LibTorch is in the thin tree"
size=$(tar -C "$TMPDIR/thin" -cz . | wc -c)
echo "thin archive: $((size / 1048576)) MiB"
[ "$size" -le $((60 * 1048576)) ] || fail "the thin archive is $size bytes"
clean SGTRAIN_LIBTORCH="$root/lib/sgtrain/libtorch" "$TMPDIR/thin/bin/sgtrain" doctor || fail "thin doctor"
if clean SGTRAIN_LIBTORCH="$TMPDIR/nowhere" "$TMPDIR/thin/bin/sgtrain" doctor 2>"$TMPDIR/message"; then
  fail "the thin program ran without LibTorch"
fi
grep -q "pip install torch==" "$TMPDIR/message" || fail "no advice when LibTorch is missing"
