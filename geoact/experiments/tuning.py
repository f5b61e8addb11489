"""Hyperparameter search with Optuna: `geoact tune`.

    <out>/study.db         Optuna's storage, SQLite: what was tried and what came of it
    <out>/tune.json        the same, plain, for the report
    <out>/best.toml        the configuration that was found, for `geoact train --config`
    <out>/.trials/         the trials' runs
    <out>/default__s1 ...  the default and the best trial once more, with other seeds

A trial is a run like those of a sweep, on the same executors. The first one has the default settings, and is never
pruned. Each evaluation of a run is reported to the pruner, which may end it; its value is the mean of its last three
evaluations. The best of many noisy numbers flatters itself, so at the end the best trial and the default run again
with seeds that the search has not seen, and only what is better there, by more than the noise, is called better.

Only this process writes to the storage, in transactions: it survives a kill at any moment. The same command goes
on: trials that were being run are taken up again, from their checkpoints where they ran on this machine.
"""

import contextlib
import hashlib
import json
import math
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from geoact.config import DEFAULT_ALGORITHM, RunConfig, defaults
from geoact.errors import InputError, TrainingFailed
from geoact.experiments import local, run_file, spaces
from geoact.experiments.local import LocalSweep, evaluations_of
from geoact.experiments.plan import PlannedRun, slug
from geoact.experiments.sweep import Cluster
from geoact.machine import available_cores
from geoact.storage import files

if TYPE_CHECKING:
    import optuna

Pruner = Literal["median", "halving", "none"]
Evaluations = Sequence[tuple[int, float]]
"""(transitions, mean return) of a run's evaluations so far."""
LAST = 3
"""A trial's value is the mean of so many evaluations at its end."""
HOPELESS = 3
"""When so many trials have failed and none has succeeded, the next would fail, too."""
STUDY = "tune"


@dataclass(frozen=True)
class Search:
    """What is searched for, and how."""

    env: str
    algorithm: str = DEFAULT_ALGORITHM
    trials: int = 50
    """Runs with different settings, pruned ones included; the first has the default ones."""
    timesteps: int = 100_000
    """Transitions of each run, over all environments together."""
    seed: int = 0
    """Seed of the runs and of what is suggested."""
    num_envs: int = 8
    """Environments stepped together in each run."""
    evaluations: int = 10
    """Evaluations during each run, each a chance to prune it."""
    eval_episodes: int = 5
    """Episodes per evaluation."""
    confirm: int = 3
    """Seeds on which the best trial and the default are compared at the end. 0: take the search's word for it."""
    pruner: Pruner = "median"
    """Which runs are ended early. median: those below the median at the same step; halving: all but the best quarter
    at each stage."""
    space: Path | None = None
    """A TOML file with the settings to try (as geoact/experiments/spaces.toml), instead of the library's own."""

    def __post_init__(self) -> None:
        for name in ("trials", "timesteps", "num_envs", "evaluations", "eval_episodes"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"{name.replace('_', '-')} must be greater than 0, got {getattr(self, name)}"
                )
        if self.confirm < 0:
            raise InputError(f"confirm must be 0 or more, got {self.confirm}")

    def config(self, settings: Any, seed: int) -> RunConfig:
        """A run of the search."""
        return RunConfig(
            env=self.env,
            algorithm=self.algorithm,
            settings=settings,
            timesteps=self.timesteps,
            seed=seed,
            num_envs=self.num_envs,
            threads=1,
            evaluations=self.evaluations,
            eval_episodes=self.eval_episodes,
            keep_checkpoints=False,
        )


@dataclass(frozen=True)
class TuneOutcome:
    """What has become of a search."""

    out: Path
    trials: int
    """How many have ended."""
    stopped: bool = False
    """Whether it was asked to end early."""
    best: Path | None = None
    """The configuration that was found to be better than the default, if one was."""


@dataclass
class _Candidate:
    """A trial that is being run."""

    trial: "optuna.Trial"
    usual: bool
    """Whether it has the default settings."""
    reported: int = 0


class Study:
    """A search in progress: gives runs, takes their evaluations, and remembers everything in its storage."""

    def __init__(self, search: Search, out: Path):
        optuna = _optuna()
        self.search, self.out = search, out
        self.space = spaces.of(search.algorithm, search.space)
        self.usual = defaults(search.algorithm)
        self._action_dim = _action_dim(search.env)
        self.resolved(self.usual)  # what the default cannot do, nothing else need try
        self._running: dict[str, _Candidate] = {}
        try:
            storage = optuna.storages.RDBStorage(f"sqlite:///{out.resolve() / 'study.db'}")
            self._study = optuna.create_study(
                storage=storage,
                study_name=STUDY,
                direction="maximize",
                load_if_exists=True,
                pruner=_pruner(optuna, search),
            )
        except Exception as error:  # SQLAlchemy's own, of many kinds
            raise InputError(f"{out / 'study.db'} cannot be used as a search's storage: {error}") from None
        self._check_identity()
        # With the same numbers again, a search that goes on would suggest what it has suggested before.
        self._study.sampler = optuna.samplers.TPESampler(
            seed=search.seed + len(self._study.trials), multivariate=True, constant_liar=True
        )
        self._take_up()

    def _check_identity(self) -> None:
        """Refuse to go on with a search for something else."""
        search = self.search
        space = hashlib.sha256(repr(sorted(self.space.items())).encode()).hexdigest()
        wanted = {
            name: getattr(search, name)
            for name in ("env", "algorithm", "timesteps", "seed", "num_envs", "evaluations", "eval_episodes")
        } | {"space": space}
        known = self._study.user_attrs.get("search")
        if known is None:
            self._study.set_user_attr("search", wanted)
            self._study.enqueue_trial(spaces.usual_values(self.space, self.usual), user_attrs={"usual": True})
        elif known != wanted:
            other = ", ".join(name for name in wanted if known.get(name) != wanted[name])
            raise InputError(
                f"{self.out} holds a search with another {other}: choose another --runs-dir, or remove it"
            )

    def _take_up(self) -> None:
        """What was being run when the search was ended is put first in the queue, with its run."""
        states = _optuna().trial.TrialState
        for trial in self._study.get_trials(states=(states.RUNNING,)):
            self._study.tell(trial.number, state=states.FAIL)
            self._study.enqueue_trial(
                trial.params or trial.system_attrs.get("fixed_params", {}),
                user_attrs={"run": _run_name(trial)}
                | ({"usual": True} if trial.user_attrs.get("usual") else {}),
            )

    @property
    def ended(self) -> list["optuna.trial.FrozenTrial"]:
        """Trials that were run, to their end or until they were pruned."""
        states = _optuna().trial.TrialState
        return self._study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))

    def next(self) -> PlannedRun | None:
        """The next trial, or None when there are enough."""
        while len(self.ended) + len(self._running) < self.search.trials:
            self._give_up_if_hopeless()
            trial = self._study.ask()
            values = {name: parameter.suggest(trial, name) for name, parameter in self.space.items()}
            name = _run_name(trial)
            try:
                settings = self.resolved(spaces.with_values(self.usual, values))
            except InputError as error:
                self._end(trial, None, str(error))
                continue
            self._running[name] = _Candidate(trial, bool(trial.user_attrs.get("usual")))
            return PlannedRun(
                name, name, self.search.config(settings, self.search.seed), self.search.timesteps
            )
        return None

    def resolved(self, settings: Any) -> Any:
        """The settings with every automatic choice made."""
        search = self.search
        return settings.resolve(search.env, self._action_dim, search.timesteps, search.num_envs)

    def _give_up_if_hopeless(self) -> None:
        reasons = [trial.user_attrs.get("reason", "") for trial in self.ended]
        if len(reasons) >= HOPELESS and all(reasons):
            raise TrainingFailed(f"every trial has failed; the last one: {reasons[-1]}")

    def watch(self, name: str, evaluations: Evaluations) -> bool:
        """Report a run's evaluations; True if it should end."""
        candidate = self._running.get(name)
        if candidate is None:
            return False
        for step, value in evaluations[candidate.reported :]:
            candidate.trial.report(value, step)
        new, candidate.reported = len(evaluations) > candidate.reported, len(evaluations)
        complete = len(evaluations) >= self.search.evaluations
        return new and not candidate.usual and not complete and candidate.trial.should_prune()

    def close(self, name: str, evaluations: Evaluations, complete: bool, reason: str = "") -> str:
        """A run has ended; `reason`: why it failed. Gives a line to tell."""
        candidate = self._running.pop(name)
        value = None
        if complete and evaluations:
            last = [score for _, score in evaluations[-LAST:]]
            value = sum(last) / len(last)
        self._end(candidate.trial, value, reason)
        self.write()
        what = f"failed: {reason}" if reason else "pruned" if value is None else f"{value:,.1f}"
        best = self.best()
        so_far = "" if best is None else f", best {best.value:,.1f} of {_run_name(best)}"
        usual = " (the default)" if candidate.usual else ""
        return f"{name}{usual}: {what}  ({len(self.ended)} of {self.search.trials}{so_far})"

    def _end(self, trial: "optuna.Trial", value: float | None, reason: str) -> None:
        states = _optuna().trial.TrialState
        if reason:
            trial.set_user_attr("reason", reason)
        # A run that broke down says as much about its settings as one that was pruned.
        self._study.tell(trial, value, state=states.COMPLETE if value is not None else states.PRUNED)

    def best(self) -> "optuna.trial.FrozenTrial | None":
        """The trial with the highest value."""
        complete = [trial for trial in self.ended if value_of(trial) is not None]
        return max(complete, key=lambda trial: (trial.value or 0.0, -trial.number), default=None)

    def settings(self, trial: "optuna.trial.FrozenTrial") -> Any:
        """The settings of a trial."""
        return spaces.with_values(self.usual, trial.params)

    def importance(self) -> dict[str, float]:
        """How much of the difference between good and bad each setting explains; empty while that cannot be told."""
        optuna = _optuna()
        with warnings.catch_warnings(), contextlib.suppress(Exception):  # too few trials, all alike, ...
            warnings.simplefilter("ignore")
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            found = optuna.importance.get_param_importances(self._study, evaluator=evaluator)
            return {name: float(share) for name, share in found.items()}
        return {}

    def write(self, confirmed: dict[str, dict[str, float]] | None = None) -> None:
        """What the report shows, as plain data."""
        trials = [
            {
                "number": trial.number,
                "run": _run_name(trial),
                "value": value_of(trial),
                "state": "failed" if trial.user_attrs.get("reason") else trial.state.name.lower(),
                "usual": bool(trial.user_attrs.get("usual")),
                "values": trial.params,
                "evaluations": sorted(trial.intermediate_values.items()),
            }
            for trial in self.ended
        ]
        best, search = self.best(), self.search
        data = {
            "format": "geoact-tune",
            "schema": 1,
            "env": search.env,
            "algorithm": search.algorithm,
            "timesteps": search.timesteps,
            "wanted": search.trials,
            "trials": trials,
            "best": None if best is None else best.number,
            "importance": self.importance(),
            "confirmed": confirmed or {},
        }
        files.write_json(self.out / "tune.json", json.loads(json.dumps(data)))


def run_search(
    search: Search,
    out: Path | None = None,
    jobs: int = 0,
    cluster: Cluster | None = None,
    say: Callable[[str], None] = print,
) -> TuneOutcome:
    """Search, or go on with a search; `say` takes what there is to tell, line by line.

    `out` defaults to tune/ENV__ALGORITHM, `jobs` (runs at a time) to the number of cores.
    """
    if jobs < 0:
        raise InputError(f"jobs must be 0 or more, got {jobs}")
    _optuna()
    out = out or Path("tune") / f"{slug(search.env)}__{search.algorithm}"
    parallel = jobs or len(available_cores())
    with local.held(out):
        study = Study(search, out)
        before = len(study.ended)
        say(
            f"{search.algorithm} on {search.env}: {search.trials} trials of {search.timesteps:,} transitions, "
            f"{len(study.space)} settings" + (f"; {before} trials are there already" if before else "")
        )
        if _try_out(study, parallel, cluster, say):
            study.write()
            return TuneOutcome(out, len(study.ended), stopped=True)
        study.write()
        return _conclude(study, parallel, cluster, say)


def _try_out(study: Study, parallel: int, cluster: Cluster | None, say: Callable[[str], None]) -> bool:
    """Run trials until there are enough; True if it was asked to stop before."""
    folder = study.out / ".trials"
    folder.mkdir(exist_ok=True)
    if cluster is not None:
        from geoact.experiments import cluster as ray_cluster

        ray_cluster.search(study, folder, cluster.address, cluster.storage, cluster.copy_every, parallel, say)
        return False
    told: set[str] = set()

    def follow(sweep: LocalSweep) -> None:
        sweep.events.clear()
        for job in sweep.jobs:
            name = job.planned.name
            if name in told:
                continue
            if job.state in ("running", "finished", "failed", "stopped"):
                evaluations = evaluations_of(job.path)
                if study.watch(name, evaluations) and job.state == "running":
                    sweep.end(job)
                if job.state in ("finished", "failed") or (job.ended and job.state == "stopped"):
                    told.add(name)
                    say(study.close(name, evaluations, job.state == "finished", job.reason))
        waiting = sum(job.state == "waiting" for job in sweep.jobs)
        while not sweep.stopping and sweep.free > waiting and (planned := study.next()) is not None:
            sweep.jobs += local.inspect([planned], folder, retry_failed=True)
            waiting += 1

    sweep = LocalSweep([], parallel)
    sweep.run(lambda sweep: None, follow)
    return sweep.stopping


def _conclude(
    study: Study, parallel: int, cluster: Cluster | None, say: Callable[[str], None]
) -> TuneOutcome:
    """Compare the best trial with the default on other seeds, and write its configuration if it is better."""
    search, best, out = study.search, study.best(), study.out
    done, target = len(study.ended), out / "best.toml"
    if best is None or best.user_attrs.get("usual"):
        target.unlink(missing_ok=True)
        say("no better configuration than the default was found")
        return TuneOutcome(out, done)
    usual = next((value_of(trial) for trial in study.ended if trial.user_attrs.get("usual")), None)
    scores = {"default": {str(search.seed): usual}, "tuned": {str(search.seed): best.value}}
    better = usual is None or (best.value or 0.0) > usual
    if search.confirm:
        confirmed = _confirm(study, best, parallel, cluster, say)
        if confirmed is None:
            return TuneOutcome(out, done, stopped=True)
        scores = confirmed
        better, words = compare(scores["default"], scores["tuned"])
        say(f"with other seeds, the last evaluations: {words}")
    study.write(
        confirmed={
            label: {k: v for k, v in found.items() if v is not None} for label, found in scores.items()
        }
    )
    if not better:
        target.unlink(missing_ok=True)
        say("no better configuration than the default was found: the best trial does not stand out")
        return TuneOutcome(out, done)
    text = run_file.write(search.config(study.settings(best), search.seed))
    files.write_bytes(target, text.encode())
    for name, value in best.params.items():
        before = spaces.usual_values(study.space, study.usual)[name]
        if value != before:
            say(f"  {name} = {_shown(value)} (default {_shown(before)})")
    say(f"best: {target} ({_run_name(best)}); geoact train --config {target}")
    return TuneOutcome(out, done, best=target)


def compare(usual: Mapping[str, float], tuned: Mapping[str, float]) -> tuple[bool, str]:
    """Whether scores, by seed, are better than the default's by more than the standard error of the difference."""

    def summary(scores: Mapping[str, float]) -> tuple[float, float, str]:
        values = list(scores.values())
        if not values:
            return -math.inf, 0.0, "no run came to its end"
        error = statistics.variance(values) / len(values) if len(values) > 1 else 0.0
        return statistics.fmean(values), error, f"{statistics.fmean(values):,.1f} ({_seeds(len(values))})"

    (before, noise, first), (after, more_noise, second) = summary(usual), summary(tuned)
    return after - before > math.sqrt(noise + more_noise), f"default {first}, tuned {second}"


def _seeds(number: int) -> str:
    return f"{number} seed{'s' if number != 1 else ''}"


def _shown(value: Any) -> str:
    return "automatic" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def _confirm(
    study: Study,
    best: "optuna.trial.FrozenTrial",
    parallel: int,
    cluster: Cluster | None,
    say: Callable[[str], None],
) -> dict[str, dict[str, float]] | None:
    """The scores of the best trial and of the default, by seed; None if asked to stop."""
    search = study.search
    planned = [
        PlannedRun(f"{name}__s{seed}", label, search.config(study.resolved(settings), seed), search.timesteps)
        for seed in range(search.seed + 1, search.seed + 1 + search.confirm)
        for name, label, settings in (
            ("default", "default", study.usual),
            (_run_name(best), "tuned", study.settings(best)),
        )
    ]
    jobs = local.inspect(planned, study.out)
    names = {run.name: run.label for run in planned}
    files.write_json(study.out / "sweep.json", {"format": "geoact-sweep", "schema": 1, "runs": names})
    if cluster is not None:
        from geoact.experiments import cluster as ray_cluster

        ray_cluster.run(jobs, study.out, cluster.address, cluster.storage, cluster.copy_every)
    else:
        sweep = LocalSweep(jobs, parallel)
        sweep.run(_telling(say))
        if sweep.stopping:
            return None
    scores: dict[str, dict[str, float]] = {"default": {}, "tuned": {}}
    for job in jobs:
        found = [score for _, score in evaluations_of(job.path)[-LAST:]]
        if job.state == "finished" and found:
            scores[job.planned.label][str(job.planned.config.seed)] = sum(found) / len(found)
    return scores


def _telling(say: Callable[[str], None]) -> Callable[[LocalSweep], None]:
    def tell(sweep: LocalSweep) -> None:
        events, sweep.events = sweep.events, []
        for event in events:
            say(event)

    return tell


def value_of(trial: "optuna.trial.FrozenTrial") -> float | None:
    """The value of a trial that came to its end; Optuna gives a pruned one that of its last evaluation."""
    return trial.value if trial.state.name == "COMPLETE" else None


def _run_name(trial: Any) -> str:
    """A trial's run; one that was taken up again keeps the first one's."""
    return str(trial.user_attrs.get("run") or f"trial_{trial.number:04}")


def _action_dim(env: str) -> int:
    from geoact import environments

    made = environments.make(env)
    (action_dim,) = made.action_space.shape or (0,)
    made.close()
    return action_dim


def _pruner(optuna: Any, search: Search) -> Any:
    first = max(1, search.timesteps // 4)
    if search.pruner == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=first)
    if search.pruner == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=first)
    return optuna.pruners.NopPruner()


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise InputError("a search needs Optuna: pip install 'geoact[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
