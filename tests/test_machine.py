import os

from geoact import machine


def test_the_cores_of_this_process(monkeypatch):
    assert machine.available_cores() == sorted(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")
    assert machine.available_cores() == list(range(os.cpu_count() or 1))
