import itertools

import numpy as np

from geoact.analysis.timing import interleaved, ratio


def test_methods_take_turns_and_the_ratio_is_their_costs():
    small, large, order = np.ones(20_000), np.ones(400_000), []

    def cheap():
        order.append("cheap")
        return np.sqrt(small)

    def dear():
        order.append("dear")
        return np.sqrt(large)

    times = interleaved({"cheap": cheap, "dear": dear}, rounds=3, burst=0.002)
    assert [len(values) for values in times.values()] == [3, 3]
    changes = sum(a != b for a, b in itertools.pairwise(order))
    assert changes == 1 + 2 * 3  # compiling and calibrating once each, then three rounds of turns
    middle, spread = ratio(times, "dear", "cheap")
    low, high = map(float, spread.split(" to "))
    assert 4 < middle < 200 and low <= middle + 0.005 and middle <= high + 0.005
