"""Everything that can be chosen, as frozen data: one configuration per algorithm, the registry, and a run's options.

No JAX here: the command line, sweeps, run directories and the NumPy runtime all read configurations, and
must start at once. Each configuration checks itself when made, and `resolve` turns every "auto" into the
value used, so that what a run writes down is complete.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from geoact.checks import DERIVED, changed, check, not_negative, positive, require, share, unknown
from geoact.errors import InputError
from geoact.policies import (
    DeterministicHead,
    GaussianHead,
    GeometricHead,
    NetworkConfig,
    TanhGaussianHead,
    check_sizes,
)

Vectorization = Literal["sync", "async", "envpool"]
Aggregate = Literal["min", "mean", "one"]
AlphaUnit = Literal["absolute", "reward"]

NORMALIZED_BOUND = 10.0
"""Normalised observations and rewards are clipped to this."""
SEED_END = 2**32
"""Seeds are below this: some simulators take no larger ones."""
FORMER_METRICS: dict[str, str] = {
    "losses/critic": "losses/qf_loss",
    "losses/actor": "losses/actor_loss",
    "losses/value": "losses/qf_values",
    "policy/alpha": "losses/alpha",
}
"""Former name -> present name of a metric, for runs that were written before metrics had CleanRL's names."""


@dataclass(frozen=True)
class CriticConfig:
    """The action-value networks of an off-policy algorithm.

    Two of 256 x 256 with the smaller value everywhere is SAC's and TD3's usual choice. DroQ is layer_norm with
    dropout=0.01 and actor_value=mean; REDQ is count=10 with target_subset=2 and actor_value=mean, both with
    updates_per_step=20.
    """

    count: int = 2
    """Critics that learn independently of one another."""
    hidden_sizes: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of each."""
    layer_norm: bool = False
    """Normalise each hidden layer (without parameters) before its ReLU."""
    dropout: float = 0.0
    """Share of each hidden layer that is dropped while learning."""
    target_value: Aggregate = "min"
    """How the target combines the critics' values: min, the smallest; mean, their mean; one, the first critic's."""
    actor_value: Aggregate = "min"
    """How the policy's loss combines the critics' values: as target-value."""
    loss: Literal["mse", "hl-gauss"] = "mse"
    """mse: the squared error. hl-gauss: each critic gives a histogram of the value and learns by cross-entropy; needs
    normalize-reward, which keeps values within the histogram."""
    bins: int = 101
    """Bins of the histogram (loss=hl-gauss)."""
    support: float = 7.0
    """The histogram's largest value, in units of the reward's scale (loss=hl-gauss); scaled returns lie within 5."""
    target_subset: int | None = None
    """The target uses this many of the critics, drawn at random for every update. Automatic: all of them."""

    def __post_init__(self) -> None:
        check(self)
        check_sizes(self.hidden_sizes)
        positive(self, "count", "target_subset", "support")
        require(2 <= self.bins <= 1001, f"bins must be between 2 and 1001, got {self.bins}")
        require(0 <= self.dropout < 1, f"dropout must be in [0, 1), got {self.dropout}")
        require(
            self.target_subset is None or self.target_subset <= self.count,
            f"target-subset is {self.target_subset}, of {self.count} critics: use at most as many as there are",
        )


@dataclass(frozen=True)
class AlgorithmConfig:
    """What every algorithm has."""

    kind: ClassVar[str]
    """The kind of policy that it trains, one of `geoact.policies.KINDS`."""
    former_metrics: ClassVar[dict[str, str]] = FORMER_METRICS
    """What its metrics are called now, by their names in runs of version 0.1."""
    gamma: float = 0.99
    """Discount per step."""
    actor: NetworkConfig = NetworkConfig()
    """The policy's network."""
    normalize_obs: bool = False
    """Observations by their running mean and deviation, which the policy file keeps."""

    def __post_init__(self) -> None:
        check(self)
        share(self, "gamma")

    def resolve(self, env: str, action_dim: int, timesteps: int, num_envs: int = 8) -> Self:
        """The same configuration with every automatic choice made."""
        return self

    def head(self) -> Any:
        """The part of the (resolved) configuration that acting needs: the settings of its kind of policy."""
        raise NotImplementedError

    def practice(self, num_envs: int) -> tuple[int, int]:
        """How many of the environments cut their episodes off, and after how many steps."""
        return 0, 0


@dataclass(frozen=True)
class OffPolicyConfig(AlgorithmConfig):
    """What GAC, SAC and TD3 share."""

    tau: float = 0.005
    """Share of the critic that its target takes over at each update."""
    batch_size: int = 256
    """Transitions per update."""
    buffer_size: int = 1_000_000
    """Transitions kept for replay."""
    replay_recency: float = 1.0
    """How much replay prefers new transitions. 1: not at all; 2: half of a batch comes from the newest quarter."""
    learning_starts: int = 5_000
    """Vector steps of uniform random actions before learning (never more than a fifth of the run)."""
    updates_per_step: int = 1
    """Gradient updates per vector step."""
    n_step: int = 1
    """Steps whose rewards the target sums before it bootstraps."""
    noise_spread: float = 1.0
    """The environments explore with different strengths: their noise is scaled by factors from 1/spread to spread."""
    practice_share: float = 0.0
    """Share of the environments that cut their episodes off after practice-steps, so that the policy keeps practising
    how an episode begins. The others' episodes alone make the training return."""
    practice_steps: int = 100
    """Steps after which these environments begin anew; the value of what would have come is bootstrapped."""
    normalize_reward: bool = False
    """Rewards by the running scale of their discounted sum, so that values are of order one on every task."""
    actor_lr: float = 3e-4
    """Adam's learning rate for the policy."""
    critic_lr: float = 1e-3
    """Adam's learning rate for the critics."""
    actor_lr_halving: int | None = None
    """Updates after which the policy's learning rate has halved: it falls as 1 / (1 + updates / this), whatever the
    length of the run. Automatic: it stays as it is."""
    critic_lr_halving: int | None = None
    """The same for the critics' learning rate."""
    cool_down: float = 0.0
    """Share of the run, at its end, over which both learning rates fall to zero in a straight line. A run that is
    extended cools down at its new end."""
    planned_updates: int | None = dataclasses.field(default=None, metadata=DERIVED)
    """Updates of the whole run, from which the cool-down counts back; by the run's length."""
    weight_decay: float = 0.0
    """Decoupled weight decay (AdamW) of the critics."""
    policy_delay: int = 1
    """Critic updates per update of the policy."""
    policy_tau: float = 1.0
    """The policy that acts, and that is evaluated and saved, is a running average of the one that learns: the share of
    it that is taken over at each vector step. 1: the one that learns."""
    critic: CriticConfig = CriticConfig()
    """The critics."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(
            self, "batch_size", "buffer_size", "updates_per_step", "n_step", "policy_delay", "practice_steps"
        )
        positive(self, "actor_lr", "critic_lr", "actor_lr_halving", "critic_lr_halving")
        not_negative(self, "learning_starts", "weight_decay")
        share(self, "tau", "policy_tau")
        require(self.replay_recency >= 1, f"replay-recency must be 1 or more, got {self.replay_recency}")
        require(self.noise_spread >= 1, f"noise-spread must be 1 or more, got {self.noise_spread}")
        require(0 <= self.practice_share < 1, f"practice-share must be in [0, 1), got {self.practice_share}")
        require(0 <= self.cool_down <= 1, f"cool-down must be in [0, 1], got {self.cool_down}")
        require(
            self.critic.loss == "mse" or self.normalize_reward,
            "critic.loss=hl-gauss has a histogram of fixed size, which only scaled values fit: add --normalize-reward",
        )

    def resolve(self, env: str, action_dim: int, timesteps: int, num_envs: int = 8) -> Self:
        """The same configuration, with the number of updates that a cool-down has to know."""
        vector_steps = -(-timesteps // num_envs)
        updates = (vector_steps - self.warm_up(vector_steps)) * self.updates_per_step
        return dataclasses.replace(self, planned_updates=max(1, updates) if self.cool_down else None)

    def practice(self, num_envs: int) -> tuple[int, int]:
        return int(self.practice_share * num_envs), self.practice_steps

    def warm_up(self, vector_steps: int) -> int:
        """Vector steps of random actions in a run of this length."""
        return max(1, min(self.learning_starts, vector_steps // 5))


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
    scale_form: Literal["bounded", "softplus"] = "bounded"
    """bounded: a learned scale stays below scale-max. softplus: the paper's, without a bound."""
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
    """Entropy of the direction that alpha is tuned to (exploration=entropy). Automatic: see entropy-of."""
    entropy_of: Literal["direction", "action"] = "direction"
    """What the automatic target means, minus the action dimension being its entropy: the direction on the unit sphere,
    or the action, whose entropy the radius makes larger; then the noise in a coordinate is what it is in SAC."""
    alpha_lr: float = 1e-3
    """Adam's learning rate for log alpha (exploration=entropy)."""
    alpha_init: float = 1.0
    """Weight of the entropy at the start (exploration=entropy)."""
    alpha_unit: AlphaUnit = "absolute"
    """What alpha-init counts. absolute: itself. reward: the size of a reward (root mean square) in the first batch."""
    center_entropy: bool = False
    """Count the entropy from its target in the critics' bonus, which is then zero on average (exploration=entropy)."""
    critic_action: Literal["executed", "raw"] = "executed"
    """What replay and critic see: the clipped action that the environment got, or the one before clipping."""
    clip_gradient: Literal["zero", "inward"] = "zero"
    """What the policy learns from a coordinate that is clipped. zero: nothing, the derivative of clipping. inward: to
    come back into the box, where the critic wants it there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "radius", "scale_max", "alpha_lr", "alpha_init")
        require(0 < self.weight < 1, f"weight must lie between 0 and 1, got {self.weight}")
        if self.concentration == "fixed":
            require(
                self.exploration == "none",
                f"concentration=fixed has no kappa that exploration={self.exploration} could use: "
                "add --exploration none",
            )
        if self.exploration == "entropy":
            require(
                self.normalize_direction and self.normalize_mixture,
                "exploration=entropy is the entropy of a density on the sphere: it needs "
                "normalize-direction and normalize-mixture",
            )
            require(
                self.concentration != "published",
                "exploration=entropy needs w = sigmoid(kappa), which concentration=published does not use: "
                "choose free or softplus",
            )
        if self.scale == "learned":
            require(
                self.entropy_of == "direction" or self.target_entropy is not None,
                "entropy-of=action needs a fixed radius, which scale=learned has not: give a --target-entropy",
            )
            require(
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
        target = self.target_entropy
        if target is None:
            stretched = (action_dim + slack - 1) * math.log(radius) if self.entropy_of == "action" else 0.0
            target = -float(action_dim) - stretched
        # A resolved configuration resolves to itself, so the radius stays None where the scale is learned.
        return dataclasses.replace(
            super().resolve(env, action_dim, timesteps, num_envs),
            slack=slack,
            concentration=concentration,
            radius=None if self.scale == "learned" else radius,
            target_entropy=target,
        )

    def head(self) -> GeometricHead:
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
            scale_form=self.scale_form,
        )


@dataclass(frozen=True)
class SACConfig(OffPolicyConfig):
    """Soft Actor-Critic: a Gaussian squashed by tanh, its entropy tuned to a target."""

    kind: ClassVar[str] = "tanh-gaussian"
    target_entropy: float | None = None
    """Entropy that the temperature is tuned to. Automatic: minus the action dimension."""
    alpha_lr: float = 1e-3
    """Adam's learning rate for the log of the temperature."""
    alpha_init: float = 1.0
    """Temperature at the start."""
    alpha_unit: AlphaUnit = "absolute"
    """What alpha-init counts. absolute: itself. reward: the size of a reward (root mean square) in the first batch."""
    center_entropy: bool = False
    """Count the entropy from its target in the critics' bonus, which is then zero on average."""
    log_std_min: float = -5.0
    """Lower bound of the log standard deviation, squashed by tanh."""
    log_std_max: float = 2.0
    """Upper bound of the log standard deviation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "alpha_lr", "alpha_init")
        require(
            self.log_std_min < self.log_std_max,
            f"log-std-min must be less than log-std-max, got {self.log_std_min} and {self.log_std_max}",
        )

    def resolve(self, env: str, action_dim: int, timesteps: int, num_envs: int = 8) -> "SACConfig":
        target = self.target_entropy if self.target_entropy is not None else -float(action_dim)
        resolved = super().resolve(env, action_dim, timesteps, num_envs)
        return dataclasses.replace(resolved, target_entropy=target)

    def head(self) -> TanhGaussianHead:
        """The part of the configuration that acting needs."""
        return TanhGaussianHead(self.log_std_min, self.log_std_max)


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
    critic: CriticConfig = CriticConfig(actor_value="one")
    """The critics; the policy maximises the first one's value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "exploration_noise", "policy_noise", "noise_clip")

    def resolve(self, env: str, action_dim: int, timesteps: int, num_envs: int = 8) -> "TD3Config":
        short = -(-timesteps // num_envs) < 200_000
        common = OffPolicyConfig().learning_starts
        default = self.learning_starts == TD3_WARM_UP
        warm_up = common if default and short else self.learning_starts
        begun = dataclasses.replace(self, learning_starts=warm_up)
        return super(TD3Config, begun).resolve(env, action_dim, timesteps, num_envs)

    def head(self) -> DeterministicHead:
        """The part of the configuration that acting needs."""
        return DeterministicHead(self.exploration_noise)


@dataclass(frozen=True)
class OnPolicyConfig(AlgorithmConfig):
    """What algorithms that learn from rollouts share."""

    former_metrics: ClassVar[dict[str, str]] = FORMER_METRICS | {
        "losses/critic": "losses/value_loss",
        "losses/value": "losses/values",
    }
    """Theirs are values of states, not of actions."""
    normalize_obs: bool = True
    """Observations by their running mean and deviation, which the policy file keeps."""
    normalize_reward: bool = True
    """Rewards by the running deviation of their discounted sum."""
    rollout: int = 2_048
    """Transitions collected before each update, over all environments together."""

    @property
    def updates_per_rollout(self) -> int:
        """Gradient updates that each rollout is good for."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "rollout")

    def rollout_steps(self, num_envs: int) -> int:
        """Vector steps in a rollout."""
        return max(1, self.rollout // num_envs)


@dataclass(frozen=True)
class PPOConfig(OnPolicyConfig):
    """Proximal Policy Optimization: a Gaussian with a state-independent deviation, learned from rollouts."""

    kind: ClassVar[str] = "gaussian"
    actor: NetworkConfig = NetworkConfig((64, 64), "tanh")
    """The policy's network."""
    gae_lambda: float = 0.95
    """Decay of the advantage estimate over steps."""
    learning_rate: float = 3e-4
    """Adam's learning rate at the start; it falls linearly to 0 over the run."""
    epochs: int = 10
    """Passes over each rollout."""
    minibatches: int = 32
    """Parts that each pass is split into, one gradient update for each."""
    clip: float = 0.2
    """Bound on how far an update may move the probability ratio from 1, and the value from its old estimate."""
    value_weight: float = 0.5
    """Weight of the value loss."""
    entropy_weight: float = 0.0
    """Weight of the entropy bonus."""
    max_gradient_norm: float = 0.5
    """Gradients longer than this are scaled down to it."""
    value_hidden_sizes: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of the value network."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "learning_rate", "epochs", "minibatches", "clip", "max_gradient_norm")
        not_negative(self, "value_weight", "entropy_weight")
        check_sizes(self.value_hidden_sizes)
        require(0 <= self.gae_lambda <= 1, f"gae-lambda must be in [0, 1], got {self.gae_lambda}")
        require(
            self.rollout >= 2 * self.minibatches,
            f"a rollout of {self.rollout} transitions cannot be split into {self.minibatches} minibatches of at "
            "least 2: use a longer --rollout or fewer --minibatches",
        )

    def resolve(self, env: str, action_dim: int, timesteps: int, num_envs: int = 8) -> Self:
        """The same configuration, if the run is long enough for one rollout."""
        steps = self.rollout_steps(num_envs)
        require(
            steps * num_envs >= 2 * self.minibatches,
            f"a rollout of {self.rollout} transitions over {num_envs} environments cannot be split into "
            f"{self.minibatches} minibatches: use fewer --num-envs or a longer --rollout",
        )
        require(
            timesteps >= steps * num_envs,
            f"PPO learns from rollouts of {steps * num_envs:,} transitions, and the run has {timesteps:,}: use more "
            "--timesteps or a shorter --rollout",
        )
        return self

    @property
    def updates_per_rollout(self) -> int:
        return self.epochs * self.minibatches

    def head(self) -> GaussianHead:
        """The part of the configuration that acting needs."""
        return GaussianHead()


@dataclass(frozen=True)
class Entry:
    """One algorithm, as the rest of the library knows it."""

    config: AlgorithmConfig
    """Its default configuration; the class names the kind of policy that it trains."""
    module: str
    """Where its `build` is; imported when it is first used, since it needs JAX."""
    agent: str
    """Its class in Python: `geoact.GAC`."""
    title: str
    """Its name in a sentence."""
    color: str
    """Its colour in every figure: one of Okabe and Ito's, which colour-blind readers tell apart too."""


FAST: dict[str, Any] = {
    "normalize_obs": True,
    "normalize_reward": True,
    "n_step": 3,
    "buffer_size": 50_000,
    "tau": 0.1,
    "batch_size": 128,
    "actor_lr_halving": 100_000,
    "critic_lr_halving": 100_000,
    "cool_down": 0.3,
    "policy_tau": 0.05,
    "practice_share": 0.25,
    "alpha_init": 0.01,
    "critic": CriticConfig(layer_norm=True),
}
"""What `gac-fast` and `sac-fast` have in common: how values are learned (docs/learning.md)."""


REGISTRY: dict[str, Entry] = {
    "gac": Entry(GACConfig(), "geoact.algorithms.gac", "GAC", "Geometric Action Control", "#0072B2"),
    "gac-scale": Entry(
        GACConfig(scale="learned"),
        "geoact.algorithms.gac",
        "GAC",
        "Geometric Action Control with a learned scale",
        "#56B4E9",
    ),
    "gac-fast": Entry(
        GACConfig(
            exploration="entropy", concentration="softplus", entropy_of="action", slack=1, radius=2.5, **FAST
        ),
        "geoact.algorithms.gac",
        "GACFast",
        "Geometric Action Control with exact entropy and a fast critic",
        "#009E73",
    ),
    "sac": Entry(SACConfig(), "geoact.algorithms.sac", "SAC", "Soft Actor-Critic", "#D55E00"),
    "sac-fast": Entry(
        SACConfig(**FAST),
        "geoact.algorithms.sac",
        "SACFast",
        "Soft Actor-Critic with the critic of gac-fast",
        "#000000",
    ),
    "td3": Entry(TD3Config(), "geoact.algorithms.td3", "TD3", "Twin Delayed DDPG", "#CC79A7"),
    "ppo": Entry(PPOConfig(), "geoact.algorithms.ppo", "PPO", "Proximal Policy Optimization", "#E69F00"),
}
"""The algorithms by the names that users type. Everything that knows algorithms by name reads this."""
DEFAULT_ALGORITHM = "gac-fast"
"""Where none is named: it was ahead of gac on every held-out task (docs/learning.md). `gac` is the paper's, always."""


def entry(algorithm: str) -> Entry:
    """The entry of a named algorithm."""
    if algorithm not in REGISTRY:
        raise InputError(unknown("algorithm", algorithm, list(REGISTRY)))
    return REGISTRY[algorithm]


def family(algorithm: str) -> list[str]:
    """An algorithm and its variants, which have its equations and other defaults; the algorithm itself comes first."""
    return [name for name, found in REGISTRY.items() if found.module == entry(algorithm).module]


def defaults(algorithm: str) -> AlgorithmConfig:
    """The default configuration of a named algorithm."""
    return entry(algorithm).config


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
    eval_steps: int = 100_000
    """Steps after which an evaluation episode is ended: an environment may have no end of its own."""
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
        check(self)
        positive(
            self, "timesteps", "num_envs", "eval_episodes", "eval_steps", "log_points", "checkpoint_steps"
        )
        not_negative(self, "checkpoint_minutes", "threads", "evaluations")
        require(
            0 <= self.seed < SEED_END,
            f"seed must be a whole number from 0 to {SEED_END - 1:,}, got {self.seed}",
        )


def option_values(options: RunOptions) -> dict[str, Any]:
    """The values of a run's options, also of a whole RunConfig."""
    return {field.name: getattr(options, field.name) for field in dataclasses.fields(RunOptions)}


@dataclass(frozen=True)
class RunConfig(RunOptions):
    """One training run, complete: this and the library versions reproduce it."""

    env: str
    """Environment id."""
    algorithm: str
    """Name of the algorithm."""
    settings: AlgorithmConfig
    """The algorithm's configuration."""
    env_given: str = ""
    """What the environment is, where its id alone does not make it again: it was given in Python."""

    def __post_init__(self) -> None:
        expected = type(defaults(str(self.algorithm)))
        require(
            isinstance(self.settings, expected),
            f"{self.algorithm} takes a {expected.__name__}, got {type(self.settings).__name__}",
        )
        super().__post_init__()

    @property
    def vector_steps(self) -> int:
        """Steps of all environments together; the last one may collect a little more than asked."""
        return -(-self.timesteps // self.num_envs)

    def to_json(self) -> dict[str, Any]:
        """Plain data for run.json."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> "RunConfig":
        """The configuration back from run.json.

        What is not in the file is what it was before it could be chosen: the default of its class. Names that do not
        exist are refused.
        """
        fields = dict(data)
        settings, algorithm = fields.pop("settings", None), fields.get("algorithm")
        require(
            isinstance(algorithm, str) and isinstance(settings, dict), "the configuration names no algorithm"
        )
        assert isinstance(algorithm, str) and isinstance(settings, dict)
        kind = type(defaults(algorithm))
        try:
            return RunConfig(settings=changed(kind(), _from_schema_1(settings, kind), algorithm), **fields)
        except TypeError as error:
            raise InputError(f"the configuration does not fit this version: {error}") from None


def _from_schema_1(settings: dict[str, Any], kind: type[AlgorithmConfig]) -> dict[str, Any]:
    """Settings of version 0.1 had one width for all networks."""
    if "hidden_size" not in settings:
        return settings
    settings = dict(settings)
    sizes = (settings.pop("hidden_size"),) * 2
    other = (
        {"critic": {"hidden_sizes": sizes}}
        if issubclass(kind, OffPolicyConfig)
        else {"value_hidden_sizes": sizes}
    )
    return settings | {"actor": {"hidden_sizes": sizes}} | other
