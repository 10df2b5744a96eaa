#!/usr/bin/env bash
# Two "machines": network namespaces joined by a veth pair, one process each over Gloo. They train; and
# when the link goes down in the middle, both end at the time-out and say so.
# timeout: 300
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
a=sgt$$a b=sgt$$b
if ! ip netns add $a 2>/dev/null; then
  echo "skipped: network namespaces are not permitted here"
  exit 77
fi
cleanup() {
  for n in $a $b; do
    for p in $(ip netns pids $n 2>/dev/null); do kill -KILL "$p" 2>/dev/null || true; done
    ip netns del $n 2>/dev/null || true
  done
}
trap cleanup EXIT
ip netns add $b
if ! ip link add va$$ netns $a type veth peer name vb$$ netns $b 2>/dev/null; then
  echo "skipped: veth links are not permitted here"
  exit 77
fi
ip -n $a addr add 10.77.0.1/24 dev va$$
ip -n $b addr add 10.77.0.2/24 dev vb$$
for n in $a $b; do ip -n $n link set lo up; done
ip -n $a link set va$$ up
ip -n $b link set vb$$ up

tiny_set data
tiny_recipe recipe.yaml "$PWD/data" 1
node() { # NAMESPACE RANK FOLDER [argument…]
  local ns=$1 rank=$2 folder=$3
  shift 3
  exec ip netns exec "$ns" "$SGTRAIN" recipe.yaml --device cpu --nnodes 2 --node-rank "$rank" \
    --rdzv-endpoint 10.77.0.1:29400 --run-dir "$folder" "$@" >"$folder$rank.log" 2>&1
}
(node $b 1 good --dist-timeout 60) & other=$!
(node $a 0 good --dist-timeout 60) || { cat good0.log; fail "two nodes"; }
wait $other || { cat good1.log; fail "two nodes: the second"; }
[ -s good/ckpt_latest.pth ] || fail "two nodes: no checkpoint"
grep -q '2 processes' good0.log || { cat good0.log; fail "two nodes trained apart"; }

(node $b 1 down --dist-timeout 5 epochs=1000) & other=$!
(node $a 0 down --dist-timeout 5 epochs=1000) & main=$!
for ((i = 0; i < 300; ++i)); do
  ! grep -q 'SUMMARY OF EPOCH 0' down0.log 2>/dev/null || break
  sleep 0.1
done
ip -n $b link set vb$$ down
for pid in $main $other; do
  code=0; wait $pid || code=$?
  [ $code = 1 ] || { tail -n 8 down0.log down1.log; fail "link down: exit code $code"; }
done
grep -q 'did not answer\|no answer' down0.log || { tail -n 8 down0.log; fail "link down: not named"; }
