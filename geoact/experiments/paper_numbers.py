"""The paper's published numbers, as data: every place that compares with them reads them here."""

import json
from importlib.resources import files
from typing import Any


def paper_numbers() -> dict[str, Any]:
    """The content of paper.json."""
    return json.loads(files("geoact.experiments").joinpath("paper.json").read_text(encoding="utf-8"))
