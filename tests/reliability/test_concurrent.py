"""Loading a policy while it is being saved: the old one or the new one, never a damaged one."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from geoact import runtime
from geoact.errors import FileFormatError
from geoact.storage.runs import Run

from . import harness

SAVE = """
import sys
import numpy as np
from pathlib import Path
from geoact import runtime
from geoact.storage.runs import Run

policy, run = runtime.load(sys.argv[1]), Run(Path(sys.argv[2]))
while True:
    for name in policy.tensors:
        policy.tensors[name] = np.asarray(policy.tensors[name] + 1e-3, np.float32)
    run.save_policy(policy, best=False)
"""


def loads_while_saving(folder: Path, count: int) -> tuple[int, int]:
    """How many loads saw another policy than the one before, and how many of them failed."""
    source = next(iter(runtime.zoo().values()))
    run = Run(folder)
    run.save_policy(runtime.load(source), best=False)
    (run.policy_path / "beside").write_text("a foreign file")
    command = [sys.executable, "-c", SAVE, str(source), str(folder)]
    writer = subprocess.Popen(command, env=harness.environment())
    changes, damaged, before = 0, 0, np.float32(0.0)
    try:
        for _ in range(count):
            try:
                value = runtime.load(run.policy_path).tensors["backbone.0.bias"].ravel()[0]
            except (FileFormatError, OSError):
                damaged += 1
                continue
            changes += int(value != before)
            before = value
        assert writer.poll() is None, "the writer ended"
    finally:
        writer.kill()
        writer.wait()
    assert (run.policy_path / "beside").read_text() == "a foreign file"
    return changes, damaged


def test_trust_15_a_policy_is_never_seen_half_replaced(tmp_path):
    _, damaged = loads_while_saving(tmp_path, 300)
    assert damaged == 0


@pytest.mark.slow
def test_trust_15_ten_thousand_loads_during_saves(tmp_path):
    changes, damaged = loads_while_saving(tmp_path, 10_000)
    print(f"concurrent: 10,000 loads during saves, {changes} new policies seen, {damaged} damaged")
    assert damaged == 0 and changes > 100
