"""`geoact export`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from geoact.commands._options import PolicyOptions


@dataclass(frozen=True, kw_only=True)
class Export(PolicyOptions):
    """Write a policy as an ONNX graph.

    Everything that acting needs is inside, also the scaling of observations and actions. The graph is run and
    compared with the policy before the command ends.
    """

    out: Path = Path("policy.onnx")
    """File to write."""
    format: Literal["onnx"] = "onnx"
    """The graph's format."""
    stochastic: bool = False
    """With exploration noise, which is then a second input of standard normal numbers."""


def run(options: Export) -> int:
    """Write the graph and say how far it is from the policy."""
    from geoact import runtime
    from geoact.deploy.export import CHECKED_OBSERVATIONS, write_onnx

    policy = runtime.load(options.policy())
    difference = write_onnx(policy, options.out, options.stochastic)
    print(
        f"{options.out}: {policy.spec.algorithm} on {policy.spec.env}, at most {difference:.1e} from the policy on "
        f"{CHECKED_OBSERVATIONS:,} random observations"
    )
    return 0
