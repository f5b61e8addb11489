"""Importing geoact, any part of it, leaves the process as it was."""

import json
import os
import subprocess
import sys

SCRIPT = """
import importlib, json, os, pkgutil, signal, sys

before = dict(os.environ), list(sys.path), {s: signal.getsignal(s) for s in signal.valid_signals()}
import geoact
for module in pkgutil.walk_packages(geoact.__path__, "geoact."):
    if not module.name.endswith("__main__"):  # which is a program
        importlib.import_module(module.name)
for name in geoact.__all__:
    getattr(geoact, name)
after = dict(os.environ), list(sys.path), {s: signal.getsignal(s) for s in signal.valid_signals()}
changed = {k: after[0].get(k) for k in before[0].keys() | after[0].keys() if before[0].get(k) != after[0].get(k)}
print(json.dumps({
    "environment": changed,
    "path": after[1] == before[1],
    "signals": after[2] == before[2],
    "torch hidden": sys.modules.get("torch", 0) is None,
    "modules": len([name for name in sys.modules if name.startswith("geoact")]),
}))
"""


def test_importing_every_module_changes_no_process_state():
    variables = {key: value for key, value in os.environ.items() if key != "MUJOCO_GL"}
    variables["PYGAME_HIDE_SUPPORT_PROMPT"] = "hide"  # importing Gymnasium sets this one
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=variables
    )
    found = json.loads(done.stdout)
    assert found.pop("modules") > 40
    assert found == {"environment": {}, "path": True, "signals": True, "torch hidden": False}
