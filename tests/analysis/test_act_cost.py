"""The time per action of every algorithm: that all are measured; the numbers are the machine's."""

from geoact.analysis import act_cost
from geoact.config import REGISTRY


def test_every_algorithm_both_ways(capsys):
    act_cost.run(3)
    lines = capsys.readouterr().out.splitlines()
    for name in REGISTRY:
        mine = [line for line in lines if line.split()[:1] == [name]]
        assert len(mine) == 2, name
        for line in mine:
            best, median = map(float, line.split()[-2:])
            assert 0.0 < best <= median
