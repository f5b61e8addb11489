# pyright: reportMissingImports=false
"""The peers' side of the baseline comparison: SAC, TD3 and PPO of Stable-Baselines3 and SBX, as we set ours.

One call trains one (library, algorithm, environment, seed) and writes its learning curve to
`<out>/<library>__<algorithm>__<env>__s<seed>.json`: the configuration, the library versions, the wall time,
every training episode as [transitions, return], and ten evaluations as [transitions, mean, std], each over
ten deterministic episodes whose resets are seeded 10,000 to 10,009.

It runs in an environment of its own (results/baselines/README.md), because PyTorch is no dependency of this
library; benchmarks/peers_queue.py makes all runs. Eight environments, one gradient update per vector step;
truncation bootstraps, termination does not.

What differs from the libraries' own defaults, beyond plain arguments:

- Stable-Baselines3 has one learning rate for all of SAC's optimisers; a subclass sets 3e-4, 1e-3, 1e-3
  (actor, critic, temperature). SBX gives the temperature the actor's rate; its optimiser is replaced by one
  at 1e-3.
- PPO's rate falls linearly as CleanRL's does: the first update has the full rate, the last one 1/n of it.

What stays the libraries' own: the initial weights (SBX's are Flax's: normal with variance 1/fan_in, biases
zero), SAC's log-std clipped to [-20, 2], a factor 1/2 in both SACs' critic loss (Adam ignores it, nearly).
SBX's TD3 has the factor 1/2 too, ascends the smaller of its two critics, not the first, and moves the target
networks at every update (not at every second).
"""

import argparse
import copy
import json
import math
import os
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("MUJOCO_GL", "disabled")

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.utils import update_learning_rate
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

ENVIRONMENTS = 8
EVALUATIONS = 10
EVALUATION_EPISODES = 10
EVALUATION_SEED = 10_000
ROLLOUT = 2048  # transitions, over all environments
MINIBATCH = 64
PPO_RATE = 3e-4
ACTOR_RATE, CRITIC_RATE, TEMPERATURE_RATE = 3e-4, 1e-3, 1e-3  # SAC's
EXPLORATION_NOISE = 0.1  # TD3's
PACKAGES = ("stable-baselines3", "sbx-rl", "torch", "jax", "gymnasium", "mujoco", "numpy")


class ThreeRateSAC(SAC):
    """Stable-Baselines3's SAC with a learning rate for each optimiser."""

    def _update_learning_rate(self, optimizers: list[torch.optim.Optimizer] | torch.optim.Optimizer) -> None:
        assert isinstance(optimizers, list) and len(optimizers) == 3, "expected actor, critic, temperature"
        for optimizer, rate in zip(optimizers, (ACTOR_RATE, CRITIC_RATE, TEMPERATURE_RATE), strict=True):
            update_learning_rate(optimizer, rate)


class Evaluator:
    """Ten environments played side by side, each for one episode, always from the same seeds."""

    def __init__(self, env_id: str) -> None:
        self.envs = [gymnasium.make(env_id) for _ in range(EVALUATION_EPISODES)]

    def __call__(self, model: BaseAlgorithm) -> tuple[float, float]:
        """Mean and standard deviation of the raw return; the observation statistics are used, not updated."""
        normalizer = model.get_vec_normalize_env()
        obs = np.stack([env.reset(seed=EVALUATION_SEED + i)[0] for i, env in enumerate(self.envs)])
        returns = np.zeros(len(self.envs))
        running = np.ones(len(self.envs), dtype=bool)
        while running.any():
            seen = obs if normalizer is None else normalizer.normalize_obs(obs)
            actions, _ = model.predict(np.asarray(seen), deterministic=True)
            for i in np.flatnonzero(running):
                obs[i], reward, terminated, truncated, _ = self.envs[i].step(actions[i])
                returns[i] += float(reward)
                running[i] = not (terminated or truncated)
        return float(returns.mean()), float(returns.std())


class Recorder(BaseCallback):
    """Collects the curve. The last evaluation is made after training, so that it sees the last update."""

    def __init__(self, evaluator: Evaluator, timesteps: int) -> None:
        super().__init__()
        self.evaluator = evaluator
        self.points = [timesteps * (k + 1) / EVALUATIONS for k in range(EVALUATIONS - 1)]
        self.episodes: list[list[float]] = []
        self.evaluations: list[list[float]] = []
        self.evaluation_seconds = 0.0

    def evaluate(self) -> None:
        start = time.perf_counter()
        mean, std = self.evaluator(self.model)
        self.evaluations.append([self.num_timesteps, round(mean, 1), round(std, 1)])
        self.evaluation_seconds += time.perf_counter() - start

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.episodes.append([self.num_timesteps, round(float(info["episode"]["r"]), 1)])
        done = len(self.evaluations)
        if done < len(self.points) and self.num_timesteps >= self.points[done]:
            self.evaluate()
        return True


def off_policy_settings(timesteps: int) -> dict[str, Any]:
    vector_steps = timesteps // ENVIRONMENTS
    return {
        "buffer_size": 1_000_000,
        "learning_starts": ENVIRONMENTS * min(5_000, vector_steps // 5),  # counted in transitions
        "batch_size": 256,
        "tau": 0.005,
        "gamma": 0.99,
        "train_freq": 1,
        "gradient_steps": 1,
        "policy_kwargs": {"net_arch": [256, 256]},  # ReLU is the default of both libraries
    }


def sac_settings(timesteps: int) -> dict[str, Any]:
    """Target entropy "auto" is -d."""
    own = {"learning_rate": ACTOR_RATE, "ent_coef": "auto_1.0", "target_entropy": "auto"}
    return off_policy_settings(timesteps) | own


def td3_settings(timesteps: int) -> dict[str, Any]:
    own = {"learning_rate": 3e-4, "target_policy_noise": 0.2, "target_noise_clip": 0.5, "policy_delay": 2}
    return off_policy_settings(timesteps) | own


def ppo_settings() -> dict[str, Any]:
    return {
        "n_steps": ROLLOUT // ENVIRONMENTS,
        "batch_size": MINIBATCH,
        "n_epochs": 10,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "clip_range": 0.2,
        "clip_range_vf": 0.2,
        "normalize_advantage": True,
        "ent_coef": 0.0,
        "vf_coef": 0.5,
        "max_grad_norm": 0.5,
        "policy_kwargs": {
            "net_arch": [64, 64],
            "log_std_init": 0.0,
            "ortho_init": True,
        },  # tanh is the default
    }


def sac_model(library: str, env: VecEnv, settings: dict[str, Any], seed: int) -> BaseAlgorithm:
    if library == "sb3":
        return ThreeRateSAC("MlpPolicy", env, device="cpu", seed=seed, **settings)
    import optax
    import sbx

    model = sbx.SAC("MlpPolicy", env, qf_learning_rate=CRITIC_RATE, seed=seed, **settings)
    tx = optax.adam(TEMPERATURE_RATE)
    temperature = model.ent_coef_state
    model.ent_coef_state = temperature.replace(tx=tx, opt_state=tx.init(temperature.params))
    return model


def td3_model(library: str, env: VecEnv, settings: dict[str, Any], seed: int) -> BaseAlgorithm:
    shape = env.action_space.shape
    assert shape is not None, "a continuous action space has a shape"
    # Both libraries make one copy of the noise per environment.
    noise = NormalActionNoise(np.zeros(shape), np.full(shape, EXPLORATION_NOISE))
    if library == "sb3":
        return TD3("MlpPolicy", env, action_noise=noise, device="cpu", seed=seed, **settings)
    import sbx

    return sbx.TD3("MlpPolicy", env, action_noise=noise, seed=seed, **settings)


def ppo_model(env: VecEnv, settings: dict[str, Any], timesteps: int, seed: int) -> PPO:
    def rate(remaining: float) -> float:
        # `remaining` already counts the rollout just collected: give it back, so the first has full rate.
        return PPO_RATE * min(1.0, max(0.0, remaining) + ROLLOUT / timesteps)

    return PPO("MlpPolicy", env, device="cpu", learning_rate=rate, seed=seed, **settings)


def train(library: str, algorithm: str, env_id: str, seed: int, timesteps: int) -> dict[str, Any]:
    """Train once and return what is written to disk."""
    if algorithm == "ppo" and library != "sb3":
        raise ValueError(
            f"PPO was asked for from {library!r}; only Stable-Baselines3's is set up: use --library sb3"
        )
    torch.set_num_threads(1)
    env: VecEnv = make_vec_env(env_id, n_envs=ENVIRONMENTS, seed=seed)
    model: BaseAlgorithm
    if algorithm == "ppo":
        timesteps = math.ceil(timesteps / ROLLOUT) * ROLLOUT  # PPO collects whole rollouts
        env = VecNormalize(env, norm_obs=True, norm_reward=True, gamma=0.99)
        settings, extra = (
            ppo_settings(),
            {"learning_rate": f"{PPO_RATE} annealed to 0", "normalize": "obs, reward"},
        )
        model = ppo_model(env, copy.deepcopy(settings), timesteps, seed)
    elif algorithm == "sac":
        settings, extra = (
            sac_settings(timesteps),
            {"qf_learning_rate": CRITIC_RATE, "ent_learning_rate": TEMPERATURE_RATE},
        )
        model = sac_model(library, env, copy.deepcopy(settings), seed)
    else:
        settings, extra = td3_settings(timesteps), {"exploration_noise": EXPLORATION_NOISE}
        model = td3_model(library, env, copy.deepcopy(settings), seed)
    recorder = Recorder(Evaluator(env_id), timesteps)

    start = time.perf_counter()
    model.learn(timesteps, callback=recorder)
    recorder.evaluate()
    seconds = time.perf_counter() - start
    return {
        "library": library,
        "algorithm": algorithm,
        "env": env_id,
        "seed": seed,
        "timesteps": model.num_timesteps,
        "environments": ENVIRONMENTS,
        "gradient_updates": int(getattr(model, "_n_updates", 0))
        * (ROLLOUT // MINIBATCH if algorithm == "ppo" else 1),
        "settings": settings | extra,
        "versions": {name: version(name) for name in PACKAGES},
        "seconds": round(seconds, 1),
        "evaluation_seconds": round(recorder.evaluation_seconds, 1),
        "evaluations": recorder.evaluations,
        "episodes": recorder.episodes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", choices=("sb3", "sbx"), default="sb3")
    parser.add_argument("--algorithm", choices=("sac", "td3", "ppo"), required=True)
    parser.add_argument("--env", default="HalfCheetah-v4")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timesteps", type=int, default=160_000, help="transitions, over all environments")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()

    trained = train(args.library, args.algorithm, args.env, args.seed, args.timesteps)
    args.out.mkdir(parents=True, exist_ok=True)
    path: Path = args.out / f"{args.library}__{args.algorithm}__{args.env}__s{args.seed}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(trained, separators=(",", ":")) + "\n")
    partial.replace(path)  # a file under its final name is a finished run
    print(f"{path.name}: {trained['evaluations'][-1]} after {trained['seconds']} s")


if __name__ == "__main__":
    main()
