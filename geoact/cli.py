"""The command line: finds the command, and says what went wrong in one line.

Bad input is exit code 2, a run that had started and failed is 1, one that was stopped is 130. What the commands are
and how they are written: geoact/commands. Nothing that computes is imported here.
"""

import sys

import geoact
from geoact import commands
from geoact.errors import STOPPED, InputError, TrainingFailed

SHELLS = ("bash", "zsh", "tcsh")


def usage() -> str:
    """What `geoact --help` prints."""
    lines = [
        f"geoact {geoact.__version__}: continuous control by geometry",
        "",
        "usage: geoact COMMAND ...          for a start: geoact train HalfCheetah-v5",
        "",
    ]
    lines += [f"  {name:<10} {command.summary}" for name, command in commands.find().items()]
    return "\n".join([*lines, "", "geoact COMMAND --help explains a command and every option of it.", ""])


def main(argv: list[str] | None = None) -> int:
    """Entry point: returns the exit code."""
    from geoact.commands._console import silence

    try:
        code = dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except InputError as error:
        print(f"geoact: {error}", file=sys.stderr)
        return 2
    except TrainingFailed as error:
        print(f"geoact: the run failed: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # geoact list | head
        silence()
        return 0
    except OSError as error:
        print(f"geoact: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return STOPPED


def dispatch(argv: list[str]) -> int:
    """Run the command that the first word names."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage(), end="")
        return 0
    if argv[0] == "--version":
        print(f"geoact {geoact.__version__}")
        return 0
    if argv[0] == "--print-completion":
        from geoact.commands._completion import script

        if argv[1:2] == [] or argv[1] not in SHELLS:
            raise InputError(f"--print-completion needs one of {', '.join(SHELLS)}")
        print(script(argv[1]), end="")
        return 0
    known = commands.find()
    if argv[0] not in known:
        from geoact.config import unknown

        raise InputError(unknown("command", argv[0], list(known)))
    try:
        return known[argv[0]](argv[1:])
    except SystemExit as ending:
        if ending.code:
            raise
        return 0  # --help ends this way


if __name__ == "__main__":
    raise SystemExit(main())
