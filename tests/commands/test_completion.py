"""Completion, as bash does it with the script that we print."""

import shutil
import subprocess

import pytest

from geoact import commands
from geoact.cli import main


@pytest.fixture(scope="module")
def script() -> str:
    from geoact.commands._completion import script

    return script("bash")


def completed(script: str, *words: str) -> set[str]:
    """What is offered for the last of the words."""
    line = " ".join(f"'{word}'" for word in ("geoact", *words))
    ask = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _geoact; printf "%s\\n" "${{COMPREPLY[@]}}"'
    bash = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
    assert bash.stderr == ""
    return set(bash.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash(script):
    assert completed(script, "") >= set(commands.find())
    assert completed(script, "ex") == {"export"}
    assert completed(script, "train", "--alg") == {"--algorithm"}
    assert completed(script, "train", "--rol") == {"--rollout"}, "also those of other algorithms"
    assert completed(script, "train", "--algorithm", "gac") == {"gac", "gac-scale", "gac-fast"}
    assert completed(script, "list", "--sort", "") == {"name", "best", "progress", "time"}
    assert completed(script, "evaluate", "--ti") == set(), "only the command's own"
    assert completed(script, "evaluate", "run") == set(), "which bash takes for a file"


def test_other_shells(capsys):
    """Neither shell is here to try: only that the script names everything."""
    assert main(["--print-completion", "zsh"]) == 0
    zsh = capsys.readouterr().out
    assert zsh.startswith("autoload -U +X bashcompinit && bashcompinit\n") and "--exploration" in zsh
    assert main(["--print-completion", "tcsh"]) == 0
    tcsh = capsys.readouterr().out
    assert tcsh.startswith("complete geoact 'p/1/(analyze ") and "'n/--executor/(local ray)/'" in tcsh
