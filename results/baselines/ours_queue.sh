#!/bin/sh
# Trains our baselines as peers_queue.sh trains the peers, seed by seed, one run at a time on one core, skipping what
# has a finished run in RUNS. Usage: ours_queue.sh PYTHON RUNS [CORE] [STOP]   (STOP: start nothing after this epoch second)
set -u
python=$1 runs=$2 core=${3:-0} stop=${4:-}
mkdir -p "$runs"
for seed in 0 10 42; do
  for algorithm in sac td3 ppo; do
    for env in HalfCheetah-v4 Hopper-v4; do
      [ -n "$stop" ] && [ "$(date +%s)" -ge "$stop" ] && exit 0
      name="${env}__${algorithm}__s${seed}__"
      grep -qs finished "$runs/$name"*/status.json && continue
      mkdir "$runs/$name.lock" 2> /dev/null || continue
      timesteps=160000
      [ "$algorithm" = ppo ] && timesteps=401408
      nice -n 5 taskset -c "$core" "$python" -m geoact.cli train "$env" --algorithm "$algorithm" --seed "$seed" \
        --timesteps "$timesteps" --threads 1 --evaluations 10 --runs-dir "$runs" > "$runs/$name.log" 2>&1
      rmdir "$runs/$name.lock"
    done
  done
done
