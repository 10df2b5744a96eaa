# Sourced by the benchmarks: bench_build TARGET… builds what they run and sets $build, the folder:
# SGTRAIN_BUILD_DIR, else that of scripts/build.sh.
bench_build() {
  if [ -n "${SGTRAIN_BUILD_DIR:-}" ]; then
    build=$SGTRAIN_BUILD_DIR
    cmake --build "$build" --target "$@"
  else
    build=$root/build/release
    "$root/scripts/build.sh" "$@"
  fi
}
