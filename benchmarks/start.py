# pyright: reportMissingImports=false
"""A peer's shortest training: imports, eight HalfCheetahs, two vector steps of random actions, one update.

    python -m benchmarks.start sbx

What `geoact train HalfCheetah-v5 --algorithm sac --timesteps 16` does, without a run directory.
"""

import sys

from stable_baselines3.common.env_util import make_vec_env

from benchmarks.peers import sac_model, sac_settings

if __name__ == "__main__":
    # Still warming up at the second step (8 < 9), so that a peer need not compile its acting yet.
    settings = sac_settings(16) | {"learning_starts": 9}
    sac_model(sys.argv[1], make_vec_env("HalfCheetah-v5", n_envs=8), settings, seed=0).learn(16)
