"""Check the claims of CATP-LLM's Section 5 against our rows."""

from __future__ import annotations

from collections.abc import Sequence

from ..claims import effect
from ..common import Row
from .policies import ALPHA, ALPHAS, KINDS
from .rows import AVERAGE

PROMPTED = ("zero-shot", "few-shot", "hugginggpt", "hydra")
TABLES = {"sequential": "Table 2", "nonsequential": "Table 3"}
ORDER = {
    "sequential": ("ift", "rltf", "zero-shot", "few-shot", "hugginggpt", "hydra", "catp"),
    "nonsequential": ("ift", "rltf", "zero-shot", "hugginggpt", "few-shot", "hydra", "catp"),
}
"""The planners by the published Quality of Plan with GPT-4 and Llama2-7B, lowest first."""
RATES = "the simulated model's rates `examples_help`, `steps_help` and `choice_slips` decide it"
MASKED = "the masks admit valid plans only"
ALL = 1.0 - 1e-9
"""A share of everything, as far as a weighted sum has it."""
NONE = float("nan")
ALIKE = 0.02
"""Quality of Plan within which two policies count as comparable."""


def catp_effects(rows: Sequence[Row], differences: Sequence[Row]) -> list[Row]:
    """Check the claims under one protocol.

    Args:
        rows: rows of all kinds of tasks and weights of the score.
        differences: rows of `difference_row`; CATP's are checked for every weight.
    """
    table = {(row["tasks"], row["alpha"], row["agent"]): row for row in rows if row["group"] == AVERAGE}
    less = {(row["tasks"], row["alpha"], row["agent"]): row for row in differences}
    found = []
    for kind in KINDS:
        for base in ORDER[kind][:-1][::-1]:
            row = less[kind, ALPHA, f"catp less {base}"]
            claim = f"{kind}: the Quality of Plan of CATP is above that of {base}"
            found.append(effect(claim, _told(row), _above(row), source=TABLES[kind]))
        found += _baselines(kind, less)
        for alpha in (each for each in ALPHAS if each != ALPHA):
            best = max(PROMPTED, key=lambda name: table[kind, alpha, name].get("quality_of_plan", -1.0))
            row = less[kind, alpha, f"catp less {best}"]
            claim = f"{kind}, alpha {alpha:g}: CATP is above every prompted planner"
            found.append(effect(claim, f"above {best} by {_told(row)}", _above(row), source="Figure 6"))
    for base in ("zero-shot", "hydra"):
        row = less["nonsequential", ALPHA, f"catp less {base}"]
        follows = _ends(row, "average_seconds")[1] < 0
        claim = f"nonsequential: plans of CATP run faster than those of {base}"
        found.append(effect(claim, _told(row, "average_seconds", " s"), follows, source="Table 3"))
    found += _ablations(table, less)
    if ("sequential", ALPHA, "catp-small less catp") in less:
        small = less["sequential", ALPHA, "catp-small less catp"]
        claim = f"sequential: a smaller policy is comparable (within {ALIKE:g})"
        found.append(effect(claim, _told(small), abs(small.get("quality_of_plan", NONE)) <= ALIKE, source="Figure 7"))
        small = less["nonsequential", ALPHA, "catp-small less catp"]
        claim = "nonsequential: a smaller policy is worse"
        found.append(effect(claim, _told(small), _ends(small)[1] < 0, source="Figure 7"))
    return found


def _baselines(kind: str, less: dict[tuple[str, float, str], Row]) -> list[Row]:
    """Return the order of the baselines: of the trained ones it is measured; of the prompted ones the simulated model decides
    it."""
    source, found = TABLES[kind], []
    for above, below in (("rltf", "ift"), ("zero-shot", "rltf")):
        row = less[kind, ALPHA, f"{above} less {below}"]
        found.append(effect(f"{kind}: {above} is above {below}", _told(row), _above(row), source=source))
    prompted = [("few-shot", "zero-shot"), ("hugginggpt", "zero-shot"), ("hydra", "few-shot"), ("hydra", "hugginggpt")]
    for above, below in prompted:
        row = less[kind, ALPHA, f"{above} less {below}"]
        found.append(effect(f"{kind}: {above} is above {below}", _told(row), _above(row), source=source, by=RATES))
    return found


def _ablations(table: dict[tuple[str, float, str], Row], less: dict[tuple[str, float, str], Row]) -> list[Row]:
    """Return the claims of Table 4, which is about sequential tasks."""
    found = []
    for name, what in (("context", "context augmentation"), ("feedback", "intermediate feedback"), ("mask", "masking")):
        row = less["sequential", ALPHA, f"catp-no-{name} less catp"]
        follows = _ends(row)[1] < 0
        found.append(effect(f"sequential: without {what} the Quality of Plan falls", _told(row), follows, source="Table 4"))
    row = less["sequential", ALPHA, "catp-no-feedback less catp"]
    follows = _ends(row, "average_cost")[0] > 0
    claim = "sequential: without intermediate feedback plans cost more"
    found.append(effect(claim, _told(row, "average_cost", " USD"), follows, source="Table 4"))
    valid = table["sequential", ALPHA, "catp-no-mask"]["plan_validity"]
    claim = "sequential: without masking some plans are not valid"
    found.append(effect(claim, f"{100 * valid:.1f} % valid", valid < ALL, source="Table 4"))
    masked = min(table[kind, ALPHA, "catp"]["plan_validity"] for kind in KINDS)
    claim = "with masking every plan is valid"
    found.append(effect(claim, f"{100 * masked:.1f} % valid", masked >= ALL, source="Table 4", by=MASKED))
    return found


def _above(row: Row) -> bool:
    return _ends(row)[0] > 0


def _ends(row: Row, metric: str = "quality_of_plan") -> tuple[float, float]:
    """Return the interval; without an episode to compare, one for which no claim holds."""
    low, high = row["ci95"].get(metric, (NONE, NONE))
    return low, high


def _told(row: Row, metric: str = "quality_of_plan", unit: str = "") -> str:
    if metric not in row:
        return "no episode with a valid plan of both"
    low, high = _ends(row, metric)
    return f"{row[metric]:+.3f}{unit} [{low:+.3f}, {high:+.3f}]"
