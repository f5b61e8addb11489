"""`geoact card`."""

from dataclasses import dataclass
from pathlib import Path

from geoact.commands._options import EpisodeOptions, check_episodes


@dataclass(frozen=True, kw_only=True)
class Card(EpisodeOptions):
    """Make a model card: a folder to share a policy with.

    It holds the policy, a fresh evaluation, a clip where rendering works, and how the policy was trained.
    """

    out: Path
    """Folder to write; an older card in it is replaced."""
    episodes: int = 10
    """Number of episodes of the evaluation."""
    licence: str = "mit"
    """The policy's licence, by the short name that the Hugging Face hub has for it."""
    push: str | None = None
    """Repository on the Hugging Face hub to upload the folder to (owner/name)."""

    def __post_init__(self) -> None:
        check_episodes(self.episodes, self.seed)


def run(options: Card) -> int:
    """Write the card, and upload it if asked to."""
    from geoact.deploy import card

    results = card.write(
        options.policy(),
        options.out,
        options.episodes,
        options.seed,
        options.licence,
        options.env,
        options.trust_env,
    )
    print(f"{options.out}: return {results.summary} over {options.episodes} episodes")
    if options.push:
        print(f"uploaded: {card.push(options.out, options.push)}")
    return 0
