"""The widget's own formulas, run by a JavaScript engine where there is one, against the library's."""

import json
import shutil
import subprocess
from importlib.resources import files

import numpy as np
import pytest

from geoact import sphere

SOURCE = files("geoact.report").joinpath("sphere.js").read_text(encoding="utf-8")
KAPPAS = [-8.0, -3.0, -1.0, -0.2, 0.2, 0.5, 2.0, 4.0]
ANGLES = [0.01, 0.1, 0.3, 0.7, 1.3, 2.5]


def test_the_widget_can_be_inlined():
    """One function, nothing from elsewhere, nothing that would end the script element around it."""
    assert "function geoactSphere(container)" in SOURCE
    for unwanted in ("</script", "http", "import ", "require("):
        assert unwanted not in SOURCE


@pytest.mark.skipif(shutil.which("node") is None, reason="needs a JavaScript engine")
def test_the_widgets_formulas_are_exact():
    program = f"""{SOURCE}
    const m = geoactSphereMath, kappas = {json.dumps(KAPPAS)}, angles = {json.dumps(ANGLES)};
    console.log(JSON.stringify({{
      cosine: kappas.map(m.meanCosine), entropy: kappas.map(m.entropy), rim: kappas.map(m.rim),
      density: kappas.map((k) => angles.map((a) => m.angleDensity(a, k))),
    }}));"""
    run = subprocess.run(["node", "-"], input=program, capture_output=True, text=True, check=True, timeout=60)
    result = json.loads(run.stdout)
    kappa, angle = np.array(KAPPAS), np.array(ANGLES)
    np.testing.assert_allclose(result["cosine"], sphere.mean_cosine_exact(kappa, 3), rtol=1e-9)
    # the widget's midpoint rule over a logarithm is good to a few 1e-4
    np.testing.assert_allclose(result["entropy"], sphere.entropy_exact(kappa, 3), atol=1e-3)
    np.testing.assert_allclose(result["rim"], np.where(kappa > 0, np.arcsin(np.exp(-np.abs(kappa))), np.pi))
    for k, row in zip(KAPPAS, result["density"]):
        density = np.exp(np.asarray(sphere.log_density(np.cos(angle).astype(np.float32), k, 3), np.float64))
        np.testing.assert_allclose(row, 2 * np.pi * np.sin(angle) * density, rtol=2e-4)
