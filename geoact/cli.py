"""The command line. Each command is a function below; JAX starts only inside those that compute.

Bad input is one line on standard error and exit code 2; a run that had started and failed is exit code 1.
"""

import dataclasses
import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, Positional

import geoact
from geoact import backend
from geoact.config import (
    ALGORITHMS,
    AlgorithmConfig,
    GACConfig,
    RunConfig,
    RunOptions,
    defaults,
)
from geoact.errors import InputError, TrainingFailed

if TYPE_CHECKING:
    from geoact.training import Training

SUMMARY = {
    "train": "train a policy",
    "resume": "go on with a run that was interrupted, or extend a finished one",
    "evaluate": "play episodes with a trained policy and report its return",
    "list": "show the runs in a directory",
    "envs": "list environments with their observation and action sizes",
    "plot": "draw the learning curves of runs",
    "export": "write a policy as an ONNX graph",
    "import": "turn a checkpoint published with the paper into a policy",
    "card": "make a model card: a folder to share a policy with",
    "bench": "measure where a training step's time goes",
    "sweep": "run an experiment of the paper, or your own, on all cores",
    "paper": "write the paper's tables and figures from runs, beside the paper's numbers",
    "compare": "compare any runs: table, statistics, curves",
    "play": "record a clip of a trained policy",
    "report": "write one HTML page about a directory of runs",
    "analyze": "make one of the side studies: the geometry, its cost, and what trained policies do",
}

STUDIES = ("concentration", "entropy", "sampling", "cost", "saturation", "scales", "stability")

ENDED = {"stopped": 130}


@dataclasses.dataclass(frozen=True)
class TrainOptions(RunOptions):
    """What `geoact train` takes besides the algorithm's own settings."""

    env: Positional[str]
    """Environment: a Gymnasium id (HalfCheetah-v5), a DMControl task (dm_control/walker-run, or walker-run), or
    one of your own (my_package:MyEnv-v0). geoact envs lists some."""
    algorithm: Annotated[str, tyro.conf.arg(help=f"One of: {', '.join(ALGORITHMS)}.")] = "gac"
    runs_dir: Path = Path("runs")
    """Where run directories are made."""


def train(argv: list[str]) -> int:
    algorithm = _peek(argv, "--algorithm", "gac")
    default = defaults(algorithm)
    options, settings = _parse_train(argv, default)
    if options.wandb:
        from geoact.runs import require_wandb

        require_wandb()
    backend.set_threads(options.threads)
    from geoact import environments, runs, training

    config = RunConfig(
        settings=settings,
        **{f.name: getattr(options, f.name) for f in dataclasses.fields(options) if f.name != "runs_dir"},
    )
    session = training.Training(config, environments.factory(config.env))
    unfinished = runs.find_unfinished(options.runs_dir, session.config)
    if unfinished is not None:
        print(
            f"note: {unfinished.path} is the same run, unfinished: geoact resume {unfinished.path} goes on with it"
        )
        if _agrees("go on with it instead of starting anew?"):
            session.close()
            return resume([str(unfinished.path)])
    training.create_run(session, options.runs_dir)
    for note in notes(settings, session.config):
        print(note)
    return _run(session)


def _agrees(question: str) -> bool:
    """Ask on a terminal; elsewhere nobody is there to answer."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def _run(session: "Training") -> int:
    from geoact import training
    from geoact.progress import Progress

    assert session.run is not None
    path, complete = session.run.path, False
    try:
        with Progress(session.config) as progress:
            complete = training.train(session, progress.wrap(None))
    except KeyboardInterrupt:
        pass  # asked twice: the newest checkpoint is what remains
    except (TrainingFailed, InputError):
        session.close()
        print(f"run: {path}", flush=True)
        raise
    session.close()
    if not complete:
        done, total = session.timesteps, session.config.timesteps
        print(f"stopped at {done:,} of {total:,}: geoact resume {path} goes on")
    print(f"run: {path}", flush=True)
    return 0 if complete else ENDED["stopped"]


def resume(argv: list[str]) -> int:
    def options(run: Positional[Path], timesteps: int | None = None) -> tuple[Path, int | None]:
        """Go on with a run that was interrupted, from its newest whole checkpoint, or extend a finished one.

        Args:
            run: The run's directory.
            timesteps: A new total of transitions, larger than the run's, to extend it.
        """
        return run, timesteps

    path, timesteps = _parse(options, "resume", argv)
    from geoact import runs

    run = runs.open_run(path)
    config = run.config()
    if timesteps is None and run.state() == "finished":
        print(
            f"{path} is finished ({config.timesteps:,} transitions); geoact resume {path} --timesteps N with a larger "
            "N extends it"
        )
        return 0
    backend.set_threads(config.threads)
    from geoact import training

    session = training.resume(path, timesteps)
    print(f"going on at {session.timesteps:,} of {session.config.timesteps:,}")
    return _run(session)


def notes(asked: AlgorithmConfig, config: RunConfig) -> list[str]:
    """One line for each automatic choice that a newcomer would wonder about."""
    lines = []
    resolved = config.settings
    if config.vectorization == "envpool":
        lines.append(
            "note: EnvPool begins episodes from random numbers of its own: this run cannot be resumed exactly"
        )
    if not isinstance(asked, GACConfig) or not isinstance(resolved, GACConfig):
        return lines
    if asked.slack == "auto" and resolved.slack == 1:
        lines.append(
            "note: slack 1 is used, because this environment has one action dimension and a sphere of two points "
            "is no place to learn"
        )
    if resolved.concentration == "free" and resolved.exploration == "kappa":
        lines.append(
            "note: a free kappa with exploration by kappa is known to diverge; it is here as an ablation"
        )
    return lines


def _parse_train(argv: list[str], default: AlgorithmConfig) -> tuple[TrainOptions, AlgorithmConfig]:
    def options(
        run: Annotated[TrainOptions, tyro.conf.arg(name="")],
        settings: Annotated[type(default), tyro.conf.arg(name="")] = default,  # type: ignore[valid-type]
    ) -> tuple[TrainOptions, AlgorithmConfig]:
        return run, settings

    return _parse(options, "train", argv)


def _peek(argv: list[str], flag: str, default: str) -> str:
    """The value of one flag, needed before the others can be known."""
    for i, word in enumerate(argv):
        if word == flag and i + 1 < len(argv):
            return argv[i + 1]
        if word.startswith(flag + "="):
            return word.partition("=")[2]
    return default


def evaluate(argv: list[str]) -> int:
    def options(
        path: Positional[Path],
        episodes: int = 10,
        seed: int = 0,
        stochastic: bool = False,
        best: bool = False,
        json: bool = False,
    ) -> dict[str, Any]:
        """Play episodes with a trained policy and report its return.

        Args:
            path: A run directory or a policy folder.
            episodes: Episodes to play; the i-th starts from seed + i.
            seed: Seed of the first episode.
            stochastic: Act with exploration noise.
            best: Of a run, the policy with the best evaluation instead of the newest.
            json: Print one JSON object.
        """
        return locals()

    given = _parse(options, "evaluate", argv)
    if given["episodes"] < 1:
        raise InputError(f"episodes must be greater than 0, got {given['episodes']}")
    from geoact import environments, runtime, training

    path = given["path"] / "best" if given["best"] else given["path"]
    policy = runtime.load(path)
    result = training.evaluate(
        policy, environments.factory(policy.spec.env), given["episodes"], given["seed"], given["stochastic"]
    )
    facts = {
        "policy": str(path),
        "env": policy.spec.env,
        "algorithm": policy.spec.algorithm,
        "episodes": given["episodes"],
        "seed": given["seed"],
        "stochastic": given["stochastic"],
        "return_mean": float(result.returns.mean()),
        "return_std": float(result.returns.std()),
        "length_mean": float(result.lengths.mean()),
        "returns": result.returns.tolist(),
    }
    if given["json"]:
        print(json.dumps(facts))
    else:
        print(
            f"{policy.spec.algorithm} on {policy.spec.env}: return {facts['return_mean']:,.1f} +- "
            f"{facts['return_std']:,.1f} over {given['episodes']} episodes (length {facts['length_mean']:,.0f})"
        )
    return 0


def list_runs(argv: list[str]) -> int:
    def options(runs_dir: Path = Path("runs")) -> Path:
        """Show the runs in a directory.

        Args:
            runs_dir: Where the run directories are.
        """
        return runs_dir

    runs_dir = _parse(options, "list", argv)
    from rich.console import Console
    from rich.table import Table

    from geoact.runs import best_evaluation, find_runs

    table = Table("run", "state", "progress", "best evaluation", "at")
    console = Console()
    for run in find_runs(runs_dir):
        try:
            status, best = run.status(), best_evaluation(run.metrics())
            share = f"{100 * status['timesteps'] / status['total']:.0f}%"
        except (InputError, KeyError, TypeError, ZeroDivisionError, OSError) as error:
            table.add_row(run.path.name, "damaged", "", str(error), "")
            continue
        shown = (f"{best[0]:,.1f}", f"{best[1]:,}") if best else ("", "")
        table.add_row(run.path.name, run.state(), share, *shown)
    if table.row_count:
        console.print(table)
    else:
        print(f"no runs in {runs_dir}: geoact train makes one")
    return 0


def plot(argv: list[str]) -> int:
    def options(
        runs: Positional[tuple[Path, ...]], out: Path = Path("curves.png")
    ) -> tuple[tuple[Path, ...], Path]:
        """Draw the learning curves of runs.

        Args:
            runs: Run directories.
            out: Picture to write (.png, .svg or .pdf).
        """
        return runs, out

    paths, out = _parse(options, "plot", argv)
    if not paths:
        raise InputError("give at least one run directory to plot")
    from geoact.report.curves import draw_runs
    from geoact.runs import open_run

    draw_runs([open_run(path) for path in paths], out)
    print(f"curves: {out}")
    return 0


def export(argv: list[str]) -> int:
    def options(
        path: Positional[Path],
        out: Path = Path("policy.onnx"),
        format: Literal["onnx"] = "onnx",
        stochastic: bool = False,
        best: bool = False,
    ) -> dict[str, Any]:
        """Write a policy as one graph with everything inside, checked against the policy itself.

        Args:
            path: A run directory or a policy folder.
            out: File to write.
            format: The graph's format.
            stochastic: With exploration noise, which is then a second input: standard normal numbers.
            best: Of a run, the policy with the best evaluation instead of the newest.
        """
        return locals()

    given = _parse(options, "export", argv)
    from geoact import runtime
    from geoact.export import CHECKED_OBSERVATIONS, write_onnx

    policy = runtime.load(given["path"] / "best" if given["best"] else given["path"])
    difference = write_onnx(policy, given["out"], given["stochastic"])
    print(
        f"{given['out']}: {policy.spec.algorithm} on {policy.spec.env}, at most {difference:.1e} from the policy on "
        f"{CHECKED_OBSERVATIONS:,} random observations"
    )
    return 0


def import_published(argv: list[str]) -> int:
    def options(file: Positional[Path], out: Path, radius: float | None = None) -> dict[str, Any]:
        """Turn a checkpoint published with the paper (.pt) into a policy, without PyTorch.

        Args:
            file: The checkpoint.
            out: Policy folder to write.
            radius: Length of the action before clipping. Automatic: 1.0 for Ant, else 2.5, as in the paper.
        """
        return locals()

    given = _parse(options, "import", argv)
    from geoact import published

    policy = published.to_policy(published.read_checkpoint(given["file"]), given["radius"])
    policy.save(given["out"])
    print(f"{given['out']}: {policy.spec.algorithm} on {policy.spec.env}, radius {policy.spec.head.radius}")
    return 0


def card(argv: list[str]) -> int:
    def options(
        path: Positional[Path],
        out: Path,
        episodes: int = 10,
        seed: int = 0,
        best: bool = False,
        licence: str = "mit",
        push: str | None = None,
    ) -> dict[str, Any]:
        """Make a model card: one folder with the policy, a fresh evaluation and how it was trained.

        Args:
            path: A run directory or a policy folder.
            out: Folder to write; an older card in it is replaced.
            episodes: Episodes of the evaluation; the i-th starts from seed + i.
            seed: Seed of the first episode.
            best: Of a run, the policy with the best evaluation instead of the newest.
            licence: The policy's licence, by the hub's short name.
            push: Repository on the Hugging Face hub to upload the folder to (owner/name).
        """
        return locals()

    given = _parse(options, "card", argv)
    from geoact import card

    path = given["path"] / "best" if given["best"] else given["path"]
    results = card.write(path, given["out"], given["episodes"], given["seed"], given["licence"])
    print(f"{given['out']}: return {results.summary} over {given['episodes']} episodes")
    if given["push"]:
        print(f"uploaded: {card.push(given['out'], given['push'])}")
    return 0


def bench(argv: list[str]) -> int:
    def options(
        what: Positional[str] = "step", env: str = "HalfCheetah-v5", algorithm: str = "gac", repeats: int = 5
    ) -> dict[str, Any]:
        """Measure where a training step's time goes, on one core.

        Args:
            what: step: the whole vector step against the bare update beside it. act: one observation in the runtime,
                for every algorithm.
            env: Environment id.
            algorithm: One of the algorithms.
            repeats: How often both are measured, interleaved.
        """
        return locals()

    given = _parse(options, "bench", argv)
    if given["what"] not in ("step", "act"):
        raise InputError(f"unknown benchmark {given['what']!r}: known: step, act")
    backend.set_threads(1)
    if given["what"] == "act":
        from geoact.analysis import act_cost

        act_cost.run(100 * given["repeats"])
        return 0
    from geoact.analysis import step_cost

    step_cost.run(given["env"], given["algorithm"], given["repeats"])
    return 0


def sweep(argv: list[str]) -> int:
    def options(
        experiment: Positional[str],
        budget: str | None = None,
        seeds: str | None = None,
        tasks: tuple[str, ...] | None = None,
        algorithms: tuple[str, ...] | None = None,
        jobs: int = 0,
        out: Path | None = None,
        retry_failed: bool = False,
        dry_run: bool = False,
        executor: Literal["local", "ray"] = "local",
        address: str | None = None,
        storage: str | None = None,
        copy_every: float = 300.0,
    ) -> dict[str, Any]:
        """Run an experiment of the paper, or your own, on all cores. The same command again continues it.

        Args:
            experiment: table1, table2, table3, tableA2, beyond, or a .toml file.
            budget: A fraction of the full runs (0.01) or a number of transitions (80000) for each.
            seeds: How many of the experiment's seeds (2), or which (0,10; one alone: 42,).
            tasks: Only these tasks.
            algorithms: Only these algorithms (the labels of the experiment's variants).
            jobs: Runs at a time, each on a core of its own. 0: as many as there are cores.
            out: Where the run directories are made. Default: sweeps/EXPERIMENT.
            retry_failed: Start failed runs again.
            dry_run: Only show the runs.
            executor: local: processes on this machine; ray: a Ray cluster (pip install 'geoact[ray]').
            address: Of the Ray cluster, for example auto or 10.0.0.1:6379. Default: start one here.
            storage: Where Ray keeps copies of the runs, a path or address that every node can reach.
            copy_every: Seconds between these copies.
        """
        return locals()

    given = _parse(options, "sweep", argv)
    import os

    from geoact.experiments import catalogue, local
    from geoact.experiments import plan as planning

    cores = len(os.sched_getaffinity(0))
    jobs = given["jobs"] or cores
    if jobs < 0:
        raise InputError(f"jobs must be 0 or more, got {jobs}")
    chosen = catalogue.select(
        planning.find(given["experiment"]), given["tasks"], given["algorithms"], given["seeds"]
    )
    runs = planning.plan(chosen, catalogue.parse_budget(given["budget"]))
    out = given["out"] or Path("sweeps") / chosen.name
    print(
        f"{chosen.title}: {len(runs)} runs, {sum(run.config.timesteps for run in runs):,} transitions in all"
    )
    if given["dry_run"]:
        for run in runs:
            print(f"  {run.name}")
        return 0
    if jobs > cores:
        print(f"note: {jobs} jobs share {cores} cores")
    with local.held(out):
        work = local.inspect(runs, out, given["retry_failed"])
        planning.note_labels(out, chosen, runs)
        running = local.LocalSweep(work, jobs)
        if given["executor"] == "ray":
            from geoact.experiments import cluster

            cluster.run(work, out, given["address"], given["storage"], given["copy_every"])
        else:
            with local.Display() as display:
                running.run(display)
    failed = [job for job in work if job.state == "failed"]
    for job in failed:
        print(f"failed: {job.planned.name}: {job.reason}")
    if failed and not given["retry_failed"]:
        print("failed runs are started again with --retry-failed")
    print(f"{local.summary(running)}")
    print(f"sweep: {out}", flush=True)
    if running.stopping:
        print("stopped: the same command again continues it")
        return ENDED["stopped"]
    return 0 if all(job.state == "finished" for job in work) else 1


def paper(argv: list[str]) -> int:
    def options(
        what: Positional[str],
        runs: Path,
        out: Path = Path("paper"),
        score: Literal["eval", "training"] = "eval",
    ) -> dict[str, Any]:
        """Write a table (Markdown, LaTeX, CSV) or a figure (PNG, SVG) of the paper, our numbers beside the paper's.

        Args:
            what: table1, table2, table3, tableA2, beyond, fig3, fig4, fig5, figA3, figA4, or all.
            runs: Where the runs are, a sweep or a directory of sweeps.
            out: Folder to write into.
            score: eval: the last deterministic evaluation; training: the return of the last tenth of training.
        """
        return locals()

    given = _parse(options, "paper", argv)
    from geoact.report import paper as tables
    from geoact.report.collect import collect

    names = [*tables.TABLES, *tables.FIGURES] if given["what"] == "all" else [given["what"]]
    tables.check(names)
    records, skipped = collect(given["runs"])
    _warn_skipped(skipped)
    for name in names:
        for path in tables.make(name, records, skipped, given["out"], given["score"]):
            print(path)
    return 0


def compare(argv: list[str]) -> int:
    def options(
        runs: Positional[tuple[Path, ...]],
        out: Path = Path("comparison"),
        score: Literal["eval", "training"] = "eval",
    ) -> dict[str, Any]:
        """Compare any runs: a table, statistics over seeds and learning curves.

        Args:
            runs: Run directories, or directories of them.
            out: Folder to write into.
            score: eval: the last deterministic evaluation; training: the return of the last tenth of training.
        """
        return locals()

    given = _parse(options, "compare", argv)
    if not given["runs"]:
        raise InputError("give at least one run directory to compare")
    from geoact.report import collect as collecting
    from geoact.report import paper as tables

    records, skipped = [], []
    for path in given["runs"]:
        found, broken = collecting.collect(path)
        if not found and not broken:
            raise InputError(f"{path} is not a run and holds none")
        records, skipped = records + found, skipped + broken
    _warn_skipped(skipped)
    if not records:
        raise InputError("none of these is a run that can be read")
    table = collecting.group(records)
    for path in tables.compare(table, given["out"], given["score"]):
        print(path)
    return 0


def play(argv: list[str]) -> int:
    def options(
        path: Positional[Path],
        episodes: int = 1,
        seed: int = 0,
        out: Path | None = None,
        seconds: float | None = None,
        best: bool = False,
    ) -> dict[str, Any]:
        """Record a clip of a trained policy, acting deterministically.

        Args:
            path: A run directory or a policy folder.
            episodes: Episodes to play; the i-th starts from seed + i.
            seed: Seed of the first episode.
            out: Clip to write (.gif or .mp4). Default: video.gif in the run, where the report finds it.
            seconds: End the clip after this many seconds.
            best: Of a run, the policy with the best evaluation instead of the newest.
        """
        return locals()

    given = _parse(options, "play", argv)
    from geoact import runtime
    from geoact.report import video

    path = given["path"]
    policy = runtime.load(path / "best" if given["best"] else path)
    out = given["out"] or (path if path.is_dir() else path.parent) / "video.gif"
    returns = video.record(policy, policy.spec.env, out, given["episodes"], given["seed"], given["seconds"])
    for number, value in enumerate(returns):
        print(f"episode {number + 1} (seed {given['seed'] + number}): return {value:,.1f}")
    print(f"video: {out}")
    return 0


def report(argv: list[str]) -> int:
    def options(
        runs: Path,
        out: Path = Path("report.html"),
        title: str | None = None,
        score: Literal["eval", "training"] = "eval",
    ) -> dict[str, Any]:
        """Write one self-contained HTML page about a directory of runs.

        Args:
            runs: Where the runs are, a sweep or a directory of sweeps.
            out: Page to write.
            title: Its heading. Default: the directory's name.
            score: eval: the last deterministic evaluation; training: the return of the last tenth of training.
        """
        return locals()

    given = _parse(options, "report", argv)
    if given["out"].suffix not in (".html", ".htm"):
        raise InputError(f"cannot write {given['out'].name}: use a name that ends in .html")
    from geoact.report import page
    from geoact.report.collect import collect

    records, skipped = collect(given["runs"])
    _warn_skipped(skipped)
    page.build(records, skipped, given["out"], given["score"], given["title"] or given["runs"].resolve().name)
    print(f"report: {given['out']} ({len(records)} runs)")
    return 0


def _warn_skipped(skipped: list[str]) -> None:
    for line in skipped:
        print(f"skipped {line}", file=sys.stderr)


def analyze(argv: list[str]) -> int:
    def options(
        study: Positional[str],
        runs: Positional[tuple[Path, ...]] = (),
        out: Path = Path("analysis"),
        seed: int = 0,
    ) -> dict[str, Any]:
        """Make one of the side studies: tables (Markdown, CSV) and figures (PNG, SVG).

        Args:
            study: concentration: how kappa gathers the actions. entropy: the exact entropy and what stands in for it.
                sampling: time per sample against von Mises-Fisher and tanh-Gaussian. cost: time per action and
                update, parameters. saturation: gradients lost at the limits, of given policies. scales: the learned
                scale over given runs. stability: four forms of kappa, trained briefly (minutes).
            runs: For saturation, runs or policies; for scales, runs or directories of them.
            out: Folder to write into.
            seed: Seed of everything random.
        """
        return locals()

    given = _parse(options, "analyze", argv)
    study, runs = given["study"], list(given["runs"])
    if study not in STUDIES:
        from geoact.config import unknown

        raise InputError(unknown("study", study, list(STUDIES)))
    reads_runs = study in ("saturation", "scales")
    if reads_runs and not runs:
        raise InputError(f"geoact analyze {study} needs the runs to look at: geoact analyze {study} RUN ...")
    if runs and not reads_runs:
        raise InputError(f"geoact analyze {study} takes no runs, got {runs[0]}")
    backend.set_threads(1)
    import importlib

    module = importlib.import_module(f"geoact.analysis.{study}")
    arguments = {"runs": runs} if reads_runs else {}
    for path in module.run(given["out"], seed=given["seed"], **arguments):
        print(path)
    return 0


def envs(argv: list[str]) -> int:
    def options(names: Positional[tuple[str, ...]] = (), all: bool = False) -> tuple[tuple[str, ...], bool]:
        """List environments with their observation and action sizes.

        Args:
            names: Environments to look at, also your own (my_package:MyEnv-v0). Without names: the paper's tasks
                and their newer versions.
            all: Everything that Gymnasium and DMControl offer here with continuous actions; takes a minute.
        """
        return names, all

    names, everything = _parse(options, "envs", argv)
    from geoact import tasks

    if not names and not everything:
        for task in tasks.GYMNASIUM + tasks.DM_CONTROL:
            print(_env_line(*task))
        print(
            "\nAny other Gymnasium environment with continuous actions works too: by its id, or as module:Id."
        )
        return 0
    from geoact import environments

    for name in names or environments.available():
        try:
            env = environments.make(name)
        except InputError:
            if names:
                raise
            continue  # discrete actions, images, or a package that is not installed
        assert env.observation_space.shape is not None and env.action_space.shape is not None
        print(_env_line(name, env.observation_space.shape[0], env.action_space.shape[0]), flush=True)
        env.close()
    return 0


def _env_line(name: str, obs_dim: int, action_dim: int, note: str = "") -> str:
    return f"{name:<28} {obs_dim:>4} observations  {action_dim:>3} actions  {note}".rstrip()


COMMANDS = {
    "train": train,
    "resume": resume,
    "evaluate": evaluate,
    "list": list_runs,
    "envs": envs,
    "plot": plot,
    "export": export,
    "import": import_published,
    "card": card,
    "bench": bench,
    "sweep": sweep,
    "paper": paper,
    "compare": compare,
    "play": play,
    "report": report,
    "analyze": analyze,
}


def _parse(function: Any, name: str, argv: list[str]) -> Any:
    # The arguments' part of the docstring is shown with the arguments.
    about = inspect.cleandoc(function.__doc__).split("\n\nArgs:")[0] if function.__doc__ else None
    return tyro.cli(function, prog=f"geoact {name}", args=argv, config=(OmitArgPrefixes,), description=about)


def usage() -> str:
    lines = [
        f"geoact {geoact.__version__}: continuous control by geometry",
        "",
        "usage: geoact COMMAND ...",
        "",
    ]
    lines += [f"  {name:<10} {summary}" for name, summary in SUMMARY.items()]
    return "\n".join([*lines, "", "geoact COMMAND --help tells more about one.", ""])


def main(argv: list[str] | None = None) -> int:
    """Entry point: returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help"):
        print(usage(), end="")
        return 0
    if argv[0] == "--version":
        print(f"geoact {geoact.__version__}")
        return 0
    try:
        if argv[0] not in COMMANDS:
            from geoact.config import unknown

            raise InputError(unknown("command", argv[0], list(COMMANDS)))
        return COMMANDS[argv[0]](argv[1:])
    except InputError as error:
        print(f"geoact: {error}", file=sys.stderr)
        return 2
    except TrainingFailed as error:
        print(f"geoact: the run failed: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"geoact: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
