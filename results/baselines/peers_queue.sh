#!/bin/sh
# Trains every peer that has no file yet, one process per core on cores 0 and 1, Stable-Baselines3 first and seed by seed.
# Usage: peers_queue.sh PYTHON OUT [STOP]   (STOP, in seconds since the epoch: start nothing after it)
set -u
python=$1 out=$2 stop=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
export MUJOCO_GL=disabled OMP_NUM_THREADS=1 JAX_PLATFORMS=cpu
export XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
state=$(mktemp -d) # the list, the locks and what the runs say on stderr
mkdir -p "$out"
for library in sb3 sbx; do
  for seed in 0 10 42; do
    for algorithm in sac td3 ppo; do
      for env in HalfCheetah-v4 Hopper-v4; do
        [ "$library-$algorithm" = sbx-ppo ] || echo "$library $algorithm $env $seed"
      done
    done
  done
done > "$state/queue"

worker() { # core: takes a run by creating its lock, so that two workers never train the same one
  while read -r library algorithm env seed; do
    name="${library}__${algorithm}__${env}__s${seed}"
    [ -n "$stop" ] && [ "$(date +%s)" -ge "$stop" ] && break
    [ -e "$out/$name.json" ] && continue
    mkdir "$state/$name.lock" 2>/dev/null || continue
    timesteps=160000
    [ "$algorithm" = ppo ] && timesteps=400000
    nice -n 10 taskset -c "$1" "$python" "$here/peers.py" --library "$library" --algorithm "$algorithm" \
      --env "$env" --seed "$seed" --timesteps "$timesteps" --out "$out" 2> "$state/$name.err" < /dev/null
  done < "$state/queue"
}
worker 0 & worker 1 &
wait
echo "done; messages are in $state"
