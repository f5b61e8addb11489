"""Everything that can be chosen, as frozen data: one configuration per algorithm, and one for a run.

No JAX here: the command line, sweeps, run directories and the NumPy runtime all read configurations, and
must start at once. Each configuration checks itself when made, and `resolve` turns every "auto" into the
value used, so that what a run writes down is complete.
"""

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from geoact.errors import InputError

Vectorization = Literal["sync", "async", "envpool"]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InputError(message)


def _positive(config: object, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and not value > 0:
            raise InputError(f"{name.replace('_', '-')} must be greater than 0, got {value}")


@dataclass(frozen=True)
class OffPolicyConfig:
    """What GAC, SAC and TD3 share."""

    gamma: float = 0.99
    """Discount per step."""
    tau: float = 0.005
    """Share of the critic that its target takes over at each update."""
    batch_size: int = 256
    """Transitions per update."""
    buffer_size: int = 1_000_000
    """Transitions kept for replay."""
    learning_starts: int = 5_000
    """Vector steps of uniform random actions before learning (never more than a fifth of the run)."""
    updates_per_step: int = 1
    """Gradient updates per vector step."""
    actor_lr: float = 3e-4
    """Adam's learning rate for the policy."""
    critic_lr: float = 1e-3
    """Adam's learning rate for the critics."""
    hidden_size: int = 256
    """Width of the two hidden layers of every network."""

    def __post_init__(self) -> None:
        _positive(
            self, "batch_size", "buffer_size", "updates_per_step", "actor_lr", "critic_lr", "hidden_size"
        )
        _require(0 < self.gamma <= 1, f"gamma must be in (0, 1], got {self.gamma}")
        _require(0 < self.tau <= 1, f"tau must be in (0, 1], got {self.tau}")
        _require(self.learning_starts >= 0, f"learning-starts must be 0 or more, got {self.learning_starts}")

    def resolve(self, env: str, action_dim: int, timesteps: int, num_envs: int = 8) -> Self:
        """The same configuration with every automatic choice made."""
        return self


def default_radius(env: str) -> float:
    """The paper's radius for an environment."""
    return 1.0 if env.startswith("Ant-") else 2.5


@dataclass(frozen=True)
class GACConfig(OffPolicyConfig):
    """Geometric Action Control: a direction on the sphere and a concentration."""

    kind: ClassVar[str] = "geometric"
    radius: float | None = None
    """Length r of the action before clipping. Automatic: 1.0 for Ant, else 2.5, as in the paper."""
    scale: Literal["fixed", "learned"] = "fixed"
    """fixed: one radius. learned: one radius per action dimension from its own head (GAC-Scale)."""
    scale_max: float = 3.5
    """Upper bound of a learned scale: r = scale_max * sigmoid(...). Without a bound it runs off early on."""
    slack: Literal["auto", 0, 1, 2] = "auto"
    """Extra sphere dimensions that are dropped from the action, so that its norm can vary. Automatic: 1 where
    the action has one dimension (a sphere of two points is no place to learn), else 0."""
    concentration: Literal["auto", "softplus", "free", "fixed", "published"] = "auto"
    """How kappa comes from its head. Automatic: softplus (kappa >= 0), or free with exact entropy. free with
    exploration by kappa is the paper's text to the letter, and diverges. fixed: no head, a constant weight.
    published: the form inside the paper's published checkpoints."""
    weight: float = 0.73
    """The constant mixing weight w of concentration=fixed."""
    normalize_direction: bool = True
    """Put the direction head's output on the sphere (False: ablation)."""
    normalize_mixture: bool = True
    """Put the mixture of direction and noise back on the sphere (False: ablation, and the published form)."""
    exploration: Literal["kappa", "entropy", "none"] = "kappa"
    """The bonus that keeps the policy exploring. kappa: -kappa, the paper's. entropy: the exact entropy, its
    weight alpha tuned to a target. none: no bonus."""
    target_entropy: float | None = None
    """Entropy that alpha is tuned to (exploration=entropy). Automatic: minus the action dimension."""
    alpha_lr: float = 1e-3
    """Adam's learning rate for log alpha (exploration=entropy)."""
    critic_action: Literal["executed", "raw"] = "executed"
    """What replay and critic see: the clipped action that the environment got, or the one before clipping."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _positive(self, "radius", "scale_max", "alpha_lr")
        _require(self.slack in ("auto", 0, 1, 2), f"slack must be auto, 0, 1 or 2, got {self.slack}")
        _require(0 < self.weight < 1, f"weight must lie between 0 and 1, got {self.weight}")
        if self.concentration == "fixed":
            _require(
                self.exploration == "none",
                f"concentration=fixed has no kappa that exploration={self.exploration} could use: "
                "add --exploration none",
            )
        if self.exploration == "entropy":
            _require(
                self.normalize_direction and self.normalize_mixture,
                "exploration=entropy is the entropy of a density on the sphere: it needs "
                "normalize-direction and normalize-mixture",
            )
            _require(
                self.concentration != "published",
                "exploration=entropy needs w = sigmoid(kappa), which concentration=published does not use: "
                "choose free or softplus",
            )
        if self.scale == "learned":
            _require(
                self.radius is None,
                "scale=learned replaces the radius by a learned one: leave --radius out, or set --scale-max",
            )

    def resolve(self, env: str, action_dim: int, timesteps: int, num_envs: int = 8) -> "GACConfig":
        slack = self.slack if self.slack != "auto" else int(action_dim == 1)
        if action_dim + slack < 2:
            raise InputError(
                "slack 0 with a one-dimensional action leaves a sphere of two points, on which no direction "
                "can be learned: use --slack 1 (or leave it out)"
            )
        concentration = self.concentration
        if concentration == "auto":
            concentration = "free" if self.exploration == "entropy" else "softplus"
        radius = self.radius if self.radius is not None else default_radius(env)
        target = self.target_entropy if self.target_entropy is not None else -float(action_dim)
        # A resolved configuration resolves to itself, so the radius stays None where the scale is learned.
        return dataclasses.replace(
            self,
            slack=slack,
            concentration=concentration,
            radius=None if self.scale == "learned" else radius,
            target_entropy=target,
        )

    def head(self) -> "GeometricHead":
        """The part of the (resolved) configuration that acting needs."""
        assert self.slack != "auto" and self.concentration != "auto"
        return GeometricHead(
            radius=self.radius,
            scale_max=self.scale_max if self.scale == "learned" else None,
            slack=self.slack,
            concentration=self.concentration,
            weight=self.weight,
            normalize_direction=self.normalize_direction,
            normalize_mixture=self.normalize_mixture,
        )


@dataclass(frozen=True)
class GeometricHead:
    """How a geometric policy turns network outputs into an action; stored in its policy file."""

    radius: float | None
    scale_max: float | None
    slack: int
    concentration: Literal["softplus", "free", "fixed", "published"]
    weight: float
    normalize_direction: bool
    normalize_mixture: bool
    kappa_init: float = 2.0
    """kappa0 of concentration=published."""


@dataclass(frozen=True)
class SACConfig(OffPolicyConfig):
    """Soft Actor-Critic: a Gaussian squashed by tanh, its entropy tuned to a target."""

    kind: ClassVar[str] = "tanh-gaussian"
    target_entropy: float | None = None
    """Entropy that the temperature is tuned to. Automatic: minus the action dimension."""
    alpha_lr: float = 1e-3
    """Adam's learning rate for the log of the temperature."""
    log_std_min: float = -5.0
    """Lower bound of the log standard deviation, squashed by tanh."""
    log_std_max: float = 2.0
    """Upper bound of the log standard deviation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _positive(self, "alpha_lr")
        _require(
            self.log_std_min < self.log_std_max,
            f"log-std-min must be less than log-std-max, got {self.log_std_min} and {self.log_std_max}",
        )

    def resolve(self, env: str, action_dim: int, timesteps: int, num_envs: int = 8) -> "SACConfig":
        target = self.target_entropy if self.target_entropy is not None else -float(action_dim)
        return dataclasses.replace(self, target_entropy=target)

    def head(self) -> "TanhGaussianHead":
        """The part of the configuration that acting needs."""
        return TanhGaussianHead(self.log_std_min, self.log_std_max)


@dataclass(frozen=True)
class TanhGaussianHead:
    """How SAC's policy turns network outputs into an action; stored in its policy file."""

    log_std_min: float
    log_std_max: float


TD3_WARM_UP = 25_000
"""CleanRL's, in steps."""


@dataclass(frozen=True)
class TD3Config(OffPolicyConfig):
    """Twin Delayed DDPG: a deterministic policy, explored with Gaussian noise."""

    kind: ClassVar[str] = "deterministic"
    learning_starts: int = TD3_WARM_UP
    """Vector steps of uniform random actions before learning (never more than a fifth of the run). The default
    becomes 5,000, as the other algorithms have it, in runs of fewer than 200,000 vector steps."""
    critic_lr: float = 3e-4
    """Adam's learning rate for the critics."""
    exploration_noise: float = 0.1
    """Standard deviation of the noise that explores, in units of the box [-1, 1]."""
    policy_noise: float = 0.2
    """Standard deviation of the noise on the target's action."""
    noise_clip: float = 0.5
    """Bound of the noise on the target's action."""
    policy_delay: int = 2
    """Critic updates per update of the policy and of the targets."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _positive(self, "policy_delay")
        for name in ("exploration_noise", "policy_noise", "noise_clip"):
            value = getattr(self, name)
            _require(value >= 0, f"{name.replace('_', '-')} must be 0 or more, got {value}")

    def resolve(self, env: str, action_dim: int, timesteps: int, num_envs: int = 8) -> "TD3Config":
        short = -(-timesteps // num_envs) < 200_000
        common = OffPolicyConfig().learning_starts
        default = self.learning_starts == TD3_WARM_UP
        return dataclasses.replace(
            self, learning_starts=common if default and short else self.learning_starts
        )

    def head(self) -> "DeterministicHead":
        """The part of the configuration that acting needs."""
        return DeterministicHead(self.exploration_noise)


@dataclass(frozen=True)
class DeterministicHead:
    """How TD3's policy explores; stored in its policy file."""

    exploration_noise: float


@dataclass(frozen=True)
class PPOConfig:
    """Proximal Policy Optimization: a Gaussian with a state-independent deviation, learned from rollouts."""

    kind: ClassVar[str] = "gaussian"
    gamma: float = 0.99
    """Discount per step."""
    gae_lambda: float = 0.95
    """Decay of the advantage estimate over steps."""
    learning_rate: float = 3e-4
    """Adam's learning rate at the start; it falls linearly to 0 over the run."""
    rollout: int = 2_048
    """Transitions collected before each update, over all environments together."""
    epochs: int = 10
    """Passes over each rollout."""
    minibatches: int = 32
    """Parts that each pass is split into, one gradient update for each."""
    clip: float = 0.2
    """How far the policy's ratio, and the value, may move while that still pays."""
    value_weight: float = 0.5
    """Weight of the value loss."""
    entropy_weight: float = 0.0
    """Weight of the entropy bonus."""
    max_gradient_norm: float = 0.5
    """Gradients longer than this are shortened to it."""
    normalize_obs: bool = True
    """Observations by their running mean and deviation, which the policy file keeps."""
    normalize_reward: bool = True
    """Rewards by the running deviation of their discounted sum."""
    hidden_size: int = 64
    """Width of the two hidden layers of both networks."""

    def __post_init__(self) -> None:
        _positive(
            self,
            "learning_rate",
            "rollout",
            "epochs",
            "minibatches",
            "clip",
            "max_gradient_norm",
            "hidden_size",
        )
        _require(0 < self.gamma <= 1, f"gamma must be in (0, 1], got {self.gamma}")
        _require(0 <= self.gae_lambda <= 1, f"gae-lambda must be in [0, 1], got {self.gae_lambda}")
        _require(
            self.rollout >= 2 * self.minibatches,
            f"a rollout of {self.rollout} transitions cannot be split into {self.minibatches} minibatches of at "
            "least 2: use a longer --rollout or fewer --minibatches",
        )

    def resolve(self, env: str, action_dim: int, timesteps: int, num_envs: int = 8) -> Self:
        """The same configuration, if the run is long enough for one rollout."""
        steps = self.rollout_steps(num_envs)
        _require(
            steps * num_envs >= 2 * self.minibatches,
            f"a rollout of {self.rollout} transitions over {num_envs} environments cannot be split into "
            f"{self.minibatches} minibatches: use fewer --num-envs or a longer --rollout",
        )
        _require(
            timesteps >= steps * num_envs,
            f"PPO learns from rollouts of {steps * num_envs:,} transitions, and the run has {timesteps:,}: use more "
            "--timesteps or a shorter --rollout",
        )
        return self

    def rollout_steps(self, num_envs: int) -> int:
        """Vector steps in a rollout."""
        return max(1, self.rollout // num_envs)

    def head(self) -> "GaussianHead":
        """The part of the configuration that acting needs."""
        return GaussianHead(obs_clip=10.0 if self.normalize_obs else None)


@dataclass(frozen=True)
class GaussianHead:
    """How PPO's policy treats its observation; stored in its policy file."""

    obs_clip: float | None
    """Bound of the normalised observation; None where observations are taken as they come."""


AlgorithmConfig = GACConfig | SACConfig | TD3Config | PPOConfig

ALGORITHMS: dict[str, AlgorithmConfig] = {
    "gac": GACConfig(),
    "gac-scale": GACConfig(scale="learned"),
    "sac": SACConfig(),
    "td3": TD3Config(),
    "ppo": PPOConfig(),
}
"""The names users type, with their defaults."""


def defaults(algorithm: str) -> AlgorithmConfig:
    """The default configuration of a named algorithm."""
    if algorithm not in ALGORITHMS:
        raise InputError(unknown("algorithm", algorithm, list(ALGORITHMS)))
    return ALGORITHMS[algorithm]


def unknown(kind: str, given: str, known: list[str]) -> str:
    """One sentence for a name that does not exist, with the nearest ones that do."""
    near = difflib.get_close_matches(given, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known)[:12])}"
    return f"unknown {kind} {given!r}: {hint}"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What can be chosen about a run besides its environment and algorithm."""

    timesteps: int = 1_000_000
    """Transitions to collect, over all environments together."""
    seed: int = 0
    """Seed of everything random in the run."""
    num_envs: int = 8
    """Environments stepped together; one vector step collects one transition from each."""
    threads: int = 0
    """Threads for the numerics. 0: all cores. 1: bit-reproducible."""
    vectorization: Vectorization = "sync"
    """sync: one process; async: one process per environment; envpool: EnvPool's own threads."""
    evaluations: int = 20
    """Deterministic evaluations during the run (the last one at its end)."""
    eval_episodes: int = 10
    """Episodes per evaluation."""
    log_points: int = 200
    """Rows of metrics written during the run, beside the evaluations."""
    wandb: bool = False
    """Record to Weights & Biases, too (extra wandb; WANDB_MODE=offline keeps it on this machine)."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints. 0: only when the run ends or is stopped."""
    checkpoint_steps: int | None = None
    """Transitions between checkpoints, instead of minutes."""
    keep_checkpoints: bool = True
    """Keep the last checkpoints, with the replay, of a finished run, so that it can be extended."""

    def __post_init__(self) -> None:
        _positive(self, "timesteps", "num_envs", "eval_episodes", "log_points", "checkpoint_steps")
        _require(
            self.checkpoint_minutes >= 0,
            f"checkpoint-minutes must be 0 or more, got {self.checkpoint_minutes}",
        )
        _require(self.seed >= 0, f"seed must be 0 or more, got {self.seed}")
        _require(self.threads >= 0, f"threads must be 0 or more, got {self.threads}")
        _require(self.evaluations >= 0, f"evaluations must be 0 or more, got {self.evaluations}")


@dataclass(frozen=True)
class RunConfig(RunOptions):
    """One training run, complete: this and the library versions reproduce it."""

    env: str
    """Environment id."""
    algorithm: str
    """Name of the algorithm."""
    settings: AlgorithmConfig
    """The algorithm's configuration."""

    @property
    def vector_steps(self) -> int:
        """Steps of all environments together; the last one may collect a little more than asked."""
        return -(-self.timesteps // self.num_envs)

    def to_json(self) -> dict[str, Any]:
        """Plain data for run.json."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> "RunConfig":
        """The configuration back from run.json; unknown or missing fields are refused by name."""
        fields = dict(data)
        settings = fields.pop("settings", {})
        algorithm = fields.get("algorithm")
        _require(
            isinstance(algorithm, str) and isinstance(settings, dict), "the configuration names no algorithm"
        )
        kind = type(defaults(str(algorithm)))
        try:
            return RunConfig(settings=kind(**settings), **fields)
        except TypeError as error:
            raise InputError(f"the configuration does not fit this version: {error}") from None
