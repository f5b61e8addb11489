"""A policy as one ONNX graph, for machines that run neither JAX nor NumPy.

    observation [batch, obs_dim] -> action [batch, action_dim]

with everything inside: observation normalisation, network, heads, clipping to the box, rescaling to the
environment's own limits. The stochastic graph has a second input, `noise`, to be filled with independent standard
normal numbers; a geometric policy's graph puts them on the sphere itself. The graph is recorded by letting the
policy's own mathematics (policies.py) act on symbols; `check` compares it with the runtime on random observations
before a file is written. Needs the extra `onnx`.

What the policy is (environment, sizes, limits, library version) is in the graph's metadata, as text.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geoact import __version__, policies
from geoact.errors import InputError
from geoact.policies import KINDS, SMALLEST_SQUARE, Params
from geoact.runtime import Policy
from geoact.storage import files

OPSET, IR_VERSION = 17, 8
"""Old enough (2022) for the runtimes that are out there; nothing newer is needed."""
CHECKED_OBSERVATIONS = 10_000
TOLERANCE = 1e-4
"""Largest difference from the runtime that `check` accepts, in units of half the action's range. Most are below
1e-6; but normalising a short vector magnifies the rounding of float32, and of 10,000 some are short."""


class Graph:
    """Nodes and constants being collected while a policy acts on symbols."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def op(
        self, kind: str, *inputs: "Symbol | float", output: str | None = None, **attributes: Any
    ) -> "Symbol":
        """Record a node and give its result."""
        from onnx import helper  # pyright: ignore[reportMissingImports]

        names = [x.name if isinstance(x, Symbol) else self.constant(x).name for x in inputs]
        output = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [output], **attributes))
        return Symbol(self, output)

    def constant(self, value: Any, dtype: Any = np.float32, name: str | None = None) -> "Symbol":
        name = name or f"constant_{len(self.constants)}"
        self.constants[name] = np.ascontiguousarray(value, dtype)
        return Symbol(self, name)


@dataclass(frozen=True, eq=False)
class Symbol:
    """A tensor of the graph; arithmetic on it is recorded."""

    graph: Graph
    name: str

    def __add__(self, other: "Symbol | float") -> "Symbol":
        return self.graph.op("Add", self, other)

    def __sub__(self, other: "Symbol | float") -> "Symbol":
        return self.graph.op("Sub", self, other)

    def __rsub__(self, other: float) -> "Symbol":
        return self.graph.op("Sub", other, self)

    def __mul__(self, other: "Symbol | float") -> "Symbol":
        return self.graph.op("Mul", self, other)

    def __truediv__(self, other: "Symbol | float") -> "Symbol":
        return self.graph.op("Div", self, other)

    __radd__, __rmul__ = __add__, __mul__


class OnnxOperations:
    """The operations of `geoact.policies`, recorded as ONNX nodes."""

    def linear(self, params: Params, name: str, x: Symbol) -> Symbol:
        return x.graph.op("Gemm", x, params[f"{name}.weight"], params[f"{name}.bias"], transB=1)

    def relu(self, x: Symbol) -> Symbol:
        return x.graph.op("Relu", x)

    def tanh(self, x: Symbol) -> Symbol:
        return x.graph.op("Tanh", x)

    def elu(self, x: Symbol) -> Symbol:
        return x.graph.op("Elu", x)

    def sigmoid(self, x: Symbol) -> Symbol:
        return x.graph.op("Sigmoid", x)

    def softplus(self, x: Symbol) -> Symbol:
        return x.graph.op("Softplus", x)

    def exp(self, x: Symbol) -> Symbol:
        return x.graph.op("Exp", x)

    def at_most(self, x: Symbol, bound: float) -> Symbol:
        return x.graph.op("Min", x, bound)

    def clip(self, x: Symbol, low: float, high: float) -> Symbol:
        return x.graph.op("Clip", x, low, high)

    def first(self, x: Symbol, count: int) -> Symbol:
        ends = (x.graph.constant([number], np.int64) for number in (0, count, 1))
        return x.graph.op("Slice", x, *ends)

    def normalize(self, v: Symbol) -> Symbol:
        op = v.graph.op
        squared = op("ReduceSumSquare", v, axes=[1], keepdims=1)
        is_direction = op("Greater", squared, SMALLEST_SQUARE)
        norm = op("Sqrt", op("Where", is_direction, squared, 1.0))
        return op("Where", is_direction, v / norm, 0.0)

    def layer_norm(self, x: Symbol) -> Symbol:
        op = x.graph.op
        centered = x - op("ReduceMean", x, axes=[1], keepdims=1)
        return centered / op("Sqrt", op("ReduceMean", centered * centered, axes=[1], keepdims=1) + 1e-5)


ONNX = OnnxOperations()


def trace(policy: Policy, graph: Graph, stochastic: bool) -> Symbol:
    """Let the policy act on symbols: the action in the environment's units, within its limits."""
    spec, kind = policy.spec, KINDS[policy.spec.kind]
    params = {name: graph.constant(tensor, name=name) for name, tensor in policy.tensors.items()}
    obs: Symbol = Symbol(graph, "observation")
    if spec.obs_clip is not None:
        obs = policies.normalized_obs(ONNX, params, obs, spec.obs_clip)
    noise = Symbol(graph, "noise") if stochastic else None
    if noise is not None and kind.sphere_noise:
        noise = ONNX.normalize(noise)
    hidden = policies.hidden(ONNX, spec.network, params, obs)
    raw = kind.act(ONNX, spec.head, params, hidden, noise, spec.action_dim)
    low, high = np.asarray(spec.action_low, np.float32), np.asarray(spec.action_high, np.float32)
    scaled = raw * graph.constant((high - low) / 2) + graph.constant((high + low) / 2)
    above = graph.op("Max", scaled, graph.constant(low))
    return graph.op("Min", above, graph.constant(high), output="action")


def onnx_model(policy: Policy, stochastic: bool = False) -> Any:
    """The graph as an `onnx.ModelProto`."""
    try:
        import onnx  # pyright: ignore[reportMissingImports]
        from onnx import TensorProto, helper, numpy_helper  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("export to ONNX needs an extra: pip install 'geoact[onnx]'") from None
    spec = policy.spec
    graph = Graph()
    trace(policy, graph, stochastic)
    used = {name for node in graph.nodes for name in node.input}
    inputs = {"observation": spec.obs_dim}
    if stochastic:
        inputs["noise"] = policies.noise_dim(spec.kind, spec.head, spec.action_dim)

    def value(name: str, width: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])

    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            f"{spec.algorithm} on {spec.env}",
            [value(name, width) for name, width in inputs.items()],
            [value("action", spec.action_dim)],
            [numpy_helper.from_array(array, name) for name, array in graph.constants.items() if name in used],
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
