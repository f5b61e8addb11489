"""The floating-point work of one update, counted from the layers' shapes.

An update needs these matrix products, and no others (2 m k n operations each):

    critic   the actor on the next observations, both targets on what it does there, both critics forward;
             backward through both critics: every layer's weights, and every layer's input but the first's
    actor    the actor forward, both critics on what it does; backward through both critics, inputs only, in
             the first layer only the columns of the action; backward through the actor, as above

Heads that share their input count as one product. Activations, optimisers and the targets' averages are left
out: they are a few per cent (a test compares with XLA's own count), and the roofline has no such work either.
"""

from collections import Counter

Product = tuple[int, int, int]
"""m, k, n: an [m, k] matrix times a [k, n] matrix."""
Layers = list[tuple[int, int]]

CONCENTRATION = 64
"""Width of the hidden layer of GAC's concentration head."""


def update_products(
    algorithm: str, obs_dim: int, action_dim: int, width: int = 256, batch: int = 256
) -> Counter[Product]:
    """How often an update of `sac` or `gac` needs each product."""
    body = [(obs_dim, width), (width, width)]
    actor = {
        "sac": [*body, (width, 2 * action_dim)],
        "gac": [*body, (width, action_dim + CONCENTRATION), (CONCENTRATION, 1)],
    }[algorithm]
    critics = 2 * [(obs_dim + action_dim, width), (width, width), (width, 1)]
    inner = 2 * [(width, width), (width, 1)]  # the critics without their first layers
    count: Counter[Product] = Counter()

    def forward(layers: Layers) -> None:
        count.update((batch, fan_in, fan_out) for fan_in, fan_out in layers)

    def weights(layers: Layers) -> None:
        count.update((fan_in, batch, fan_out) for fan_in, fan_out in layers)

    def inputs(layers: Layers) -> None:
        count.update((batch, fan_out, fan_in) for fan_in, fan_out in layers)

    forward(actor + critics)  # the target
    forward(critics)
    weights(critics)
    inputs(inner)
    forward(actor + critics)
    inputs(inner + 2 * [(action_dim, width)])
    weights(actor)
    inputs(actor[1:])
    return count


def flops(products: Counter[Product]) -> int:
    """Floating-point operations, a multiplication and an addition each."""
    return sum(2 * m * k * n * times for (m, k, n), times in products.items())
