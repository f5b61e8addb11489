"""A policy as one ONNX graph, for machines that run neither JAX nor NumPy.

    observation [batch, obs_dim] -> action [batch, action_dim]

with everything inside: observation normalisation, network, heads, clipping to the box, rescaling to the
environment's own limits. The stochastic graph has a second input, `noise`, to be filled with independent standard
normal numbers; a geometric policy's graph puts them on the sphere itself. The same mathematics as
`geoact.runtime`, and `check` holds the two together on random observations before a file is written. Needs the
extra `onnx`.

What the policy is (environment, sizes, limits, library version) is in the graph's metadata, as text.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from geoact import __version__, files, runtime
from geoact.config import DeterministicHead, GaussianHead, GeometricHead, TanhGaussianHead
from geoact.errors import InputError
from geoact.runtime import Policy, Tensors

OPSET, IR_VERSION = 17, 8
"""Old enough (2022) for the runtimes that are out there; nothing newer is needed."""
CHECKED_OBSERVATIONS = 10_000
TOLERANCE = 1e-4
"""Largest difference from the runtime that `check` accepts, in units of half the action's range. Most are below
1e-6; but normalising a short vector magnifies the rounding of float32, and of 10,000 some are short."""


class Graph:
    """Nodes and constants being collected; every method gives the name of its result."""

    def __init__(self, tensors: Tensors):
        self._tensors = tensors
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        from onnx import helper  # pyright: ignore[reportMissingImports]

        output = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def tensor(self, name: str) -> str:
        self.constants[name] = np.ascontiguousarray(self._tensors[name], np.float32)
        return name

    def linear(self, name: str, x: str) -> str:
        """`x @ W.T + b`"""
        return self.op("Gemm", x, self.tensor(name + ".weight"), self.tensor(name + ".bias"), transB=1)

    def backbone(self, activation: str, x: str) -> str:
        x = self.op(activation, self.linear("backbone.0", x))
        return self.op(activation, self.linear("backbone.1", x))

    def normalize(self, x: str) -> str:
        """Unit vectors; a vector without a direction becomes zero."""
        squared = self.op("ReduceSumSquare", x, axes=[1], keepdims=1)
        is_direction = self.op("Greater", squared, self.constant(runtime.SMALLEST_SQUARE))
        norm = self.op("Sqrt", self.op("Where", is_direction, squared, self.constant(1.0)))
        return self.op("Where", is_direction, self.op("Div", x, norm), self.constant(0.0))

    def first(self, x: str, count: int) -> str:
        """The first `count` columns."""
        ends = (self.constant([0], np.int64), self.constant([count], np.int64), self.constant([1], np.int64))
        return self.op("Slice", x, *ends)

    def times(self, x: str, y: str | float) -> str:
        return self.op("Mul", x, y if isinstance(y, str) else self.constant(y))

    def plus(self, x: str, y: str | float) -> str:
        return self.op("Add", x, y if isinstance(y, str) else self.constant(y))


def geometric(graph: Graph, head: GeometricHead, obs: str, noise: str | None, action_dim: int) -> str:
    """`runtime.geometric_act`"""
    x = graph.backbone("Relu", obs)
    action = graph.linear("direction", x)
    if head.normalize_direction:
        action = graph.normalize(action)
    hidden = ""
    if head.scale_max is not None or (noise is not None and head.concentration != "fixed"):
        hidden = graph.op("Relu", graph.linear("concentration.0", x))
    if noise is not None:
        weight = _weight(graph, head, hidden)
        rest = graph.op("Sub", graph.constant(1.0), weight)
        action = graph.plus(graph.times(action, weight), graph.times(graph.normalize(noise), rest))
        if head.normalize_mixture:
            action = graph.normalize(action)
    action = graph.first(action, action_dim)
    if head.scale_max is not None:
        scale = graph.op("Sigmoid", graph.linear("scale", hidden))
        return graph.times(action, graph.times(scale, head.scale_max))
    assert head.radius is not None
    return graph.times(action, head.radius)


def _weight(graph: Graph, head: GeometricHead, hidden: str) -> str:
    """`runtime.geometric_weight`"""
    if head.concentration == "fixed":
        return graph.constant(head.weight)
    logit = graph.linear("concentration.1", hidden)
    if head.concentration == "softplus":
        logit = graph.op("Softplus", logit)
    elif head.concentration == "published":
        bounded = graph.times(graph.op("Sigmoid", graph.times(logit, 0.2)), 20.0)
        kappa = graph.op("Softplus", graph.plus(bounded, float(np.log(head.kappa_init)) - 10.0))
        kappa = graph.op("Min", graph.plus(kappa, 1e-6), graph.constant(20.0))
        logit = graph.times(kappa, 0.5)
    return graph.op("Sigmoid", logit)


def tanh_gaussian(graph: Graph, head: TanhGaussianHead, obs: str, noise: str | None, action_dim: int) -> str:
    """`runtime.tanh_gaussian_act`"""
    x = graph.backbone("Relu", obs)
    action = graph.linear("mean", x)
    if noise is not None:
        half = (head.log_std_max - head.log_std_min) / 2
        squashed = graph.times(graph.op("Tanh", graph.linear("log_std", x)), half)
        std = graph.op("Exp", graph.plus(squashed, head.log_std_min + half))
        action = graph.plus(action, graph.times(noise, std))
    return graph.op("Tanh", action)


def deterministic(graph: Graph, head: DeterministicHead, obs: str, noise: str | None, action_dim: int) -> str:
    """`runtime.deterministic_act`"""
    action = graph.op("Tanh", graph.linear("mean", graph.backbone("Relu", obs)))
    return action if noise is None else graph.plus(action, graph.times(noise, head.exploration_noise))


def gaussian(graph: Graph, head: GaussianHead, obs: str, noise: str | None, action_dim: int) -> str:
    """`runtime.gaussian_act`"""
    if head.obs_clip is not None:
        centred = graph.op("Sub", obs, graph.tensor("obs_mean"))
        bounds = graph.constant(-head.obs_clip), graph.constant(head.obs_clip)
        obs = graph.op("Clip", graph.op("Div", centred, graph.tensor("obs_std")), *bounds)
    action = graph.linear("mean", graph.backbone("Tanh", obs))
    if noise is None:
        return action
    return graph.plus(action, graph.times(noise, graph.op("Exp", graph.tensor("log_std"))))


GRAPHS: dict[str, Callable[[Graph, Any, str, str | None, int], str]] = {
    "geometric": geometric,
    "tanh-gaussian": tanh_gaussian,
    "deterministic": deterministic,
    "gaussian": gaussian,
}
"""Per kind of policy (runtime.KINDS), the same function as its `act`."""


def onnx_model(policy: Policy, stochastic: bool = False) -> Any:
    """The graph as an `onnx.ModelProto`."""
    try:
        import onnx  # pyright: ignore[reportMissingImports]
        from onnx import TensorProto, helper, numpy_helper  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("export to ONNX needs an extra: pip install 'geoact[onnx]'") from None
    spec = policy.spec
    if spec.kind not in GRAPHS:
        raise InputError(f"a {spec.kind} policy cannot be exported to ONNX")
    graph = Graph(policy.tensors)
    inputs = {"observation": spec.obs_dim}
    if stochastic:
        inputs["noise"] = policy.noise(np.random.default_rng(0), 1).shape[1]
    raw = GRAPHS[spec.kind](graph, spec.head, "observation", "noise" if stochastic else None, spec.action_dim)
    low, high = np.asarray(spec.action_low, np.float32), np.asarray(spec.action_high, np.float32)
    scaled = graph.op(
        "Add", graph.op("Mul", raw, graph.constant((high - low) / 2)), graph.constant((high + low) / 2)
    )
    above = graph.op("Max", scaled, graph.constant(low))
    graph.op("Min", above, graph.constant(high), output="action")

    def value(name: str, width: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])

    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            f"{spec.algorithm} on {spec.env}",
            [value(name, width) for name, width in inputs.items()],
            [value("action", spec.action_dim)],
            [numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="geoact",
        producer_version=__version__,
        doc_string=("noise: independent standard normal numbers; " if stochastic else "")
        + "action: within the environment's limits",
    )
    helper.set_model_props(model, metadata(policy, stochastic))
    onnx.checker.check_model(model, full_check=True)
    return model


def metadata(policy: Policy, stochastic: bool) -> dict[str, str]:
    """What a graph says about itself; values that are not text are JSON."""
    spec = policy.spec
    return {
        "geoact_version": __version__,
        "environment": spec.env,
        "algorithm": spec.algorithm,
        "policy": "stochastic" if stochastic else "deterministic",
        "observation_size": str(spec.obs_dim),
        "action_size": str(spec.action_dim),
        "action_low": json.dumps(spec.action_low),
        "action_high": json.dumps(spec.action_high),
        "about": json.dumps(spec.about),
    }


def check(model: bytes, policy: Policy, stochastic: bool, seed: int = 0) -> float:
    """The largest difference between graph and runtime on random observations, in half action ranges."""
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError(
            "the exported graph is checked with onnxruntime: pip install 'geoact[onnx]'"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    # Observations of different sizes, as different environments and phases of learning give them.
    obs = rng.standard_normal((CHECKED_OBSERVATIONS, policy.spec.obs_dim), dtype=np.float32)
    obs *= np.exp(rng.uniform(-3.0, 3.0, (len(obs), 1))).astype(np.float32)
    feed, noise = {"observation": obs}, None
    if stochastic:
        noise = feed["noise"] = policy.noise(rng, len(obs))
    actions = np.asarray(session.run(["action"], feed)[0])
    low, high = np.asarray(policy.spec.action_low), np.asarray(policy.spec.action_high)
    reference = np.clip(policy.raw(obs, noise), -1.0, 1.0)
    return float(np.abs((actions - (low + high) / 2) / ((high - low) / 2) - reference).max())


def write_onnx(policy: Policy, out: Path, stochastic: bool = False) -> float:
    """Write the graph, after it has been checked; gives the largest difference from the runtime."""
    data = onnx_model(policy, stochastic).SerializeToString()
    difference = check(data, policy, stochastic)
    if not difference <= TOLERANCE:
        raise InputError(
            f"the exported graph differs from the policy by {difference:.2g} of the action's range, more than "
            f"{TOLERANCE:.0e}: nothing was written"
        )
    files.write_bytes(out, data)
    return difference
