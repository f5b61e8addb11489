"""Completion scripts for shells: the commands, each command's flags, and the values of a flag where they are few.

File names are offered everywhere else. The script is made anew by `geoact --print-completion`, so it always knows
what the installed version knows.
"""

from geoact import commands
from geoact.commands._arguments import Flags

GENERAL = ("--help", "--version", "--print-completion")


def script(shell: str) -> str:
    """The text that a shell reads: bash, zsh or tcsh."""
    known = {name: command.flags() for name, command in commands.find().items()}
    if shell == "tcsh":
        return _tcsh(known)
    return ("autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else "") + _bash(known)


def _bash(known: dict[str, Flags]) -> str:
    cases = []
    for name, flags in known.items():
        cases += [
            f'        {name}:{flag}) words="{" ".join(values)}" ;;'
            for flag, values in flags.items()
            if values
        ]
        cases.append(f'        {name}:*) [[ $word == -* ]] && words="{" ".join(flags)}" ;;')
    lines = [
        "_geoact() {",
        "    local word=${COMP_WORDS[COMP_CWORD]} words=",
        "    if [[ $COMP_CWORD -eq 1 ]]; then",
        f'        words="{" ".join((*known, *GENERAL))}"',
        "    else",
        '        case "${COMP_WORDS[1]}:${COMP_WORDS[COMP_CWORD-1]}" in',
        *cases,
        "        esac",
        "    fi",
        '    COMPREPLY=( $(compgen -W "$words" -- "$word") )',
        "}",
        "complete -o default -F _geoact geoact",
    ]
    return "\n".join([*lines, ""])


def _tcsh(known: dict[str, Flags]) -> str:
    """tcsh does not know which command a flag is for: it is offered all of them."""
    together: Flags = {}
    for flags in known.values():
        for flag, values in flags.items():
            together[flag] = tuple(dict.fromkeys((*together.get(flag, ()), *values)))
    rules = [f"'p/1/({' '.join((*known, *GENERAL))})/'"]
    rules += [f"'n/{flag}/({' '.join(values)})/'" for flag, values in together.items() if values]
    rules.append(f"'c/--/({' '.join(flag.removeprefix('--') for flag in together)})/'")
    return f"complete geoact {' '.join(rules)}\n"
