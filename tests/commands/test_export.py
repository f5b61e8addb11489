"""`geoact export`: the graph of the right policy, and how far it is from it."""

import numpy as np
import pytest

from geoact.commands.export import Export, run

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.mark.parametrize(("best", "expected"), [(False, [0.3, -0.3]), (True, [0.0, 0.0])])
def test_a_graph_that_acts(best, expected, player, tmp_path, capsys):
    out = tmp_path / "policy.onnx"
    assert run(Export(player.path, best=best, out=out)) == 0
    assert capsys.readouterr().out.startswith(f"{out}: td3 on tests.probes:Reach-v0, at most ")
    session = onnxruntime.InferenceSession(out)
    (action,) = session.run(None, {"observation": np.ones((1, 2), np.float32)})
    np.testing.assert_allclose(action[0], expected, atol=1e-6)


def test_with_noise_there_is_a_second_input(player, tmp_path):
    out = tmp_path / "policy.onnx"
    assert run(Export(player.path, out=out, stochastic=True)) == 0
    session = onnxruntime.InferenceSession(out)
    assert [value.name for value in session.get_inputs()] == ["observation", "noise"]
