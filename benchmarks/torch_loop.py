# pyright: reportMissingImports=false
"""SAC and PPO in plain PyTorch, as a CleanRL user runs them: one file, eager, no framework.

CleanRL is not a package, so this stands in for it: its networks, losses, optimisers and schedules (SAC's actor
is updated twice at every second step), `gymnasium`'s vector environments, and a replay of NumPy arrays.
"""

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor, nn
from torch.nn import functional

GAMMA, TAU = 0.99, 0.005


def vectorize(makers: list[Callable[[], gym.Env]]) -> tuple[SyncVectorEnv, int, int]:
    """Vector environments, and the sizes of observation and action."""
    envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    obs, action = envs.single_observation_space.shape, envs.single_action_space.shape
    assert obs is not None and action is not None
    return envs, obs[0], action[0]


def mlp(fan_in: int, width: int, fan_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(fan_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, fan_out)
    )


class Actor(nn.Module):
    """A tanh-Gaussian on two hidden layers; the boxes of the tasks measured are [-scale, scale]."""

    def __init__(self, obs_dim: int, action_dim: int, width: int, scale: np.ndarray):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.mean, self.log_std = nn.Linear(width, action_dim), nn.Linear(width, action_dim)
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.float32))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """An action and the log of its density."""
        x = self.body(obs)
        normal = torch.distributions.Normal(
            self.mean(x), (-5 + 0.5 * (2 + 5) * (torch.tanh(self.log_std(x)) + 1)).exp()
        )
        raw = normal.rsample()
        squashed = torch.tanh(raw)
        log_prob = normal.log_prob(raw) - torch.log(self.scale * (1 - squashed.pow(2)) + 1e-6)
        return squashed * self.scale, log_prob.sum(1, keepdim=True)


class SACLoop:
    """CleanRL's `sac_continuous_action`."""

    def __init__(
        self, makers: list[Callable[[], gym.Env]], batch: int, width: int, updates: int, buffer: int
    ):
        self.envs, obs_dim, action_dim = vectorize(makers)
        self.batch, self.updates_per_step = batch, updates
        space = self.envs.single_action_space
        assert isinstance(space, gym.spaces.Box)
        self.actor = Actor(obs_dim, action_dim, width, space.high)
        self.critics = [mlp(obs_dim + action_dim, width, 1) for _ in range(2)]
        self.targets = [mlp(obs_dim + action_dim, width, 1) for _ in range(2)]
        for critic, target in zip(self.critics, self.targets):
            target.load_state_dict(critic.state_dict())
        self.critic_parameters = [p for critic in self.critics for p in critic.parameters()]
        self.critic_adam = torch.optim.Adam(self.critic_parameters, lr=1e-3)
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.alpha_adam = torch.optim.Adam([self.log_alpha], lr=1e-3)
        self.target_entropy = -float(action_dim)
        widths = (obs_dim, action_dim, 1, 1, obs_dim)
        self.replay = [np.empty((buffer, n), np.float32) for n in widths]
        self.added, self.count = 0, 0
        self.rng = np.random.default_rng(0)
        self.obs, _ = self.envs.reset(seed=0)

    def add(self, *columns: np.ndarray) -> None:
        """obs, action, reward, terminated, next obs: a row for each environment."""
        where = np.arange(self.added, self.added + len(columns[0])) % len(self.replay[0])
        for store, column in zip(self.replay, columns):
            store[where] = column.reshape(len(where), -1)
        self.added += len(where)

    def sample(self) -> list[Tensor]:
        where = self.rng.integers(0, min(self.added, len(self.replay[0])), self.batch)
        return [torch.from_numpy(store[where]) for store in self.replay]

    def vector_step(self) -> None:
        with torch.no_grad():
            action = self.actor(torch.as_tensor(self.obs, dtype=torch.float32))[0].numpy()
        obs, reward, terminated, truncated, infos = self.envs.step(action)
        next_obs = obs.copy()
        for i in np.flatnonzero(terminated | truncated):
            next_obs[i] = infos["final_obs"][i]
        self.add(self.obs, action, reward, terminated, next_obs)
        self.obs = obs
        for _ in range(self.updates_per_step):
            self.update(self.sample())

    def update(self, rows: list[Tensor]) -> None:
        obs, action, reward, terminated, next_obs = rows
        with torch.no_grad():
            next_action, next_log_prob = self.actor(next_obs)
            x = torch.cat([next_obs, next_action], 1)
            next_value = torch.min(*(target(x) for target in self.targets))
            y = reward + (1 - terminated) * GAMMA * (next_value - self.log_alpha.exp() * next_log_prob)
        x = torch.cat([obs, action], 1)
        first, second = (functional.mse_loss(critic(x), y) for critic in self.critics)
        loss = first + second
        self.critic_adam.zero_grad()
        loss.backward()
        self.critic_adam.step()

        self.count += 1
        for _ in range(2 if self.count % 2 == 0 else 0):
            new_action, log_prob = self.actor(obs)
            x = torch.cat([obs, new_action], 1)
            value = torch.min(*(critic(x) for critic in self.critics))
            self.actor_adam.zero_grad()
            (self.log_alpha.exp().detach() * log_prob - value).mean().backward()
            self.actor_adam.step()
            with torch.no_grad():
                _, log_prob = self.actor(obs)
            self.alpha_adam.zero_grad()
            (-self.log_alpha.exp() * (log_prob + self.target_entropy)).mean().backward()
            self.alpha_adam.step()

        with torch.no_grad():
            for critic, target in zip(self.critics, self.targets):
                for fast, slow in zip(critic.parameters(), target.parameters()):
                    slow.copy_(TAU * fast + (1 - TAU) * slow)


def orthogonal(fan_in: int, fan_out: int, gain: float = 2**0.5) -> nn.Linear:
    layer = nn.Linear(fan_in, fan_out)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def tanh_network(obs_dim: int, width: int, fan_out: int, gain: float) -> nn.Sequential:
    layers = orthogonal(obs_dim, width), orthogonal(width, width), orthogonal(width, fan_out, gain)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def normalized(make: Callable[[], gym.Env]) -> gym.Env:
    """CleanRL's wrappers: clipped actions, normalised and clipped observations and rewards."""
    env = gym.wrappers.NormalizeObservation(gym.wrappers.ClipAction(make()))
    env = gym.wrappers.TransformObservation(env, lambda obs: np.clip(obs, -10, 10), env.observation_space)
    env = gym.wrappers.NormalizeReward(env, gamma=GAMMA)
    return gym.wrappers.TransformReward(env, lambda reward: np.clip(float(reward), -10.0, 10.0))


class PPOLoop:
    """CleanRL's `ppo_continuous_action`, 64-64 tanh networks."""

    def __init__(self, makers: list[Callable[[], gym.Env]], rollout: int, minibatch: int, epochs: int):
        wrapped = [lambda make=make: normalized(make) for make in makers]
        self.envs, obs_dim, action_dim = vectorize(wrapped)
        self.steps, self.minibatch, self.epochs = rollout // len(makers), minibatch, epochs
        self.actor = tanh_network(obs_dim, 64, action_dim, 0.01)
        self.value = tanh_network(obs_dim, 64, 1, 1.0)
        self.log_std = nn.Parameter(torch.zeros(action_dim))
        self.parameters = [*self.actor.parameters(), *self.value.parameters(), self.log_std]
        self.adam = torch.optim.Adam(self.parameters, lr=3e-4, eps=1e-5)
        shape = (self.steps, len(makers))
        self.obs, self.action = torch.zeros(*shape, obs_dim), torch.zeros(*shape, action_dim)
        self.log_prob, self.reward, self.done, self.values = (torch.zeros(shape) for _ in range(4))
        self.next_obs = torch.as_tensor(self.envs.reset(seed=0)[0], dtype=torch.float32)
        self.next_done = torch.zeros(len(makers))

    def policy(self, obs: Tensor) -> torch.distributions.Normal:
        mean = self.actor(obs)
        return torch.distributions.Normal(mean, self.log_std.exp().expand_as(mean))

    def rollout(self) -> None:
        """Collect, and learn from it."""
        for t in range(self.steps):
            self.obs[t], self.done[t] = self.next_obs, self.next_done
            with torch.no_grad():
                normal = self.policy(self.next_obs)
                self.action[t] = normal.sample()
                self.log_prob[t] = normal.log_prob(self.action[t]).sum(1)
                self.values[t] = self.value(self.next_obs)[:, 0]
            obs, reward, terminated, truncated, _ = self.envs.step(self.action[t].numpy())
            self.reward[t] = torch.as_tensor(reward, dtype=torch.float32)
            self.next_obs = torch.as_tensor(obs, dtype=torch.float32)
            self.next_done = torch.as_tensor(terminated | truncated, dtype=torch.float32)
        self.learn(self.advantages())

    def advantages(self) -> Tensor:
        with torch.no_grad():
            next_value = self.value(self.next_obs)[:, 0]
        advantage, later, going = torch.zeros_like(self.reward), torch.zeros(()), 1 - self.next_done
        for t in reversed(range(self.steps)):
            delta = self.reward[t] + GAMMA * next_value * going - self.values[t]
            advantage[t] = later = delta + GAMMA * 0.95 * going * later
            next_value, going = self.values[t], 1 - self.done[t]
        return advantage

    def learn(self, advantage: Tensor) -> None:
        flat = [x.flatten(0, 1) for x in (self.obs, self.action, self.log_prob, self.values, advantage)]
        for _ in range(self.epochs):
            for where in torch.randperm(len(flat[0])).split(self.minibatch):
                self.descend(*(x[where] for x in flat))

    def descend(
        self, obs: Tensor, action: Tensor, old_log_prob: Tensor, old_value: Tensor, advantage: Tensor
    ) -> None:
        target = advantage + old_value
        normal = self.policy(obs)
        ratio = (normal.log_prob(action).sum(1) - old_log_prob).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        actor_loss = torch.max(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2)).mean()
        value = self.value(obs)[:, 0]
        near = old_value + (value - old_value).clamp(-0.2, 0.2)
        value_loss = 0.5 * torch.max((value - target) ** 2, (near - target) ** 2).mean()
        self.adam.zero_grad()
        (actor_loss + 0.5 * value_loss).backward()
        nn.utils.clip_grad_norm_(self.parameters, 0.5)
        self.adam.step()
