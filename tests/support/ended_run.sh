# For script tests of runs of several processes that end badly: sourced after tiny_run.sh. TMPDIR of a run
# is $PWD/tmp, so that what it leaves there is seen.
mkdir -p tmp

launch() { # FOLDER [argument…]: in the background; sets pid
  local folder=$1
  shift
  rm -f fault
  TMPDIR=$PWD/tmp env --default-signal=HUP "$SGTRAIN" recipe.yaml --run-dir "$folder" --device cpu "$@" >"$folder.log" 2>&1 &
  pid=$!
}
wait_for() { # FOLDER CONDITION…: until the command succeeds; the run must not end before
  local folder=$1 i
  shift
  for ((i = 0; i < 600; ++i)); do
    ! "$@" || return 0
    [ -d /proc/$pid ] || { cat "$folder.log"; fail "$folder ended by itself"; }
    sleep 0.1
  done
  fail "$folder: never came to $*"
}
workers() { ps -o pid= --ppid $pid | tr -d ' '; }
alive() { [ -d /proc/$1 ] && [ "$(awk '{print $3}' /proc/$1/stat 2>/dev/null)" != Z ]; }
gone() { # PID…: within 5 s
  local i p left
  for ((i = 0; i < 50; ++i)); do
    left=0
    for p in "$@"; do ! alive $p || left=1; done
    [ $left = 1 ] || return 0
    sleep 0.1
  done
  fail "left behind: $*"
}
# expect FOLDER CODE TEXT…: the exit code, and what the log says; nothing is left in the folder for
# temporary files, and no process that works here.
expect() {
  local folder=$1 wanted=$2 code=0 text
  shift 2
  wait $pid || code=$?
  [ $code = "$wanted" ] || { tail -20 "$folder.log"; fail "$folder: exit code $code, not $wanted"; }
  for text in "$@"; do grep -q -- "$text" "$folder.log" || { tail -20 "$folder.log"; fail "$folder does not say '$text'"; }; done
  nothing_left "$folder"
}
nothing_left() { # NAME
  [ -z "$(ls tmp)" ] || fail "$1 left $(ls tmp)"
  local i own
  for ((i = 0; i < 50; ++i)); do
    own=$(working_here)
    [ -n "$own" ] || return 0
    sleep 0.1
  done
  fail "$1 left processes: $own"
}
working_here() { # pids of the program in this folder
  local cwd p
  for cwd in /proc/[0-9]*/cwd; do
    p=${cwd#/proc/} p=${p%/cwd}
    if [ "$(readlink "$cwd" 2>/dev/null)" = "$PWD" ] && grep -q '^sgtrain' "/proc/$p/comm" 2>/dev/null && alive $p; then echo $p; fi
  done
}
