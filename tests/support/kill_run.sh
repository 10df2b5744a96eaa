# For script tests: sourced after tiny_run.sh.
# kill_run COUNT: kills a run at COUNT random moments; there is always a file to go on from, and the end
# equals that of a run that was left alone.
kill_run() {
  local kills=0 code=0 pid i
  tiny_set data
  tiny_recipe recipe.yaml "$PWD/data" 24
  "$SGTRAIN" recipe.yaml --run-dir whole 2>whole.log || { cat whole.log; fail "the run"; }
  while [ $kills -lt "$1" ]; do
    rm -rf killed
    for ((i = 0; i < 1000; ++i)); do
      "$SGTRAIN" recipe.yaml --run-dir killed 2>killed.log &
      pid=$!
      if [ $kills -lt "$1" ]; then
        random_sleep 0.15 0.6
        kill -KILL $pid 2>/dev/null || true
      fi
      code=0; wait $pid 2>/dev/null || code=$?
      [ $code != 0 ] || break
      [ $code = 137 ] || { cat killed.log; fail "exit code $code after kill -9"; }
      kills=$((kills + 1))
      [ ! -e killed/ckpt_latest.pth ] || "$SGTRAIN_BUILD_DIR/tests/checkpoint_tool" copy killed/ckpt_latest.pth copy.pth ||
        fail "ckpt_latest.pth cannot be read after kill $kills"
    done
    [ $code = 0 ] || fail "never came to an end"
    [ -z "$(ls -d killed/averaging_snapshots 2>/dev/null)" ] || fail "snapshots are left"
    same_end whole killed
  done
  echo "killed $kills times"
}
