"""Save pictures of results as SVG files that suit a light page and a dark one."""

from pathlib import Path
from typing import Any

INK, INK_DARK = "#333333", "#dddddd"  # of texts and axes, on a light page and on a dark one
GREEN, BLUE, PINK, ORANGE = "#009E73", "#0072B2", "#CC79A7", "#D55E00"  # of the palette of Okabe and Ito
STRATEGIES = {  # name, colour and marker
    "react": ("ReAct", INK, "o"),
    "react+btp": ("BTP", GREEN, "s"),
    "react+ecoact": ("EcoAct", BLUE, "^"),
    "dfsdt": ("DFSDT", PINK, "D"),
    "toolplanner": ("ToolPlanner", ORANGE, "v"),
}
STYLE: dict[str, Any] = {
    "svg.hashsalt": "costgym", "svg.fonttype": "none", "font.size": 10, "text.color": INK,
    **dict.fromkeys(("axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}  # fmt: skip
"""Settings of matplotlib."""


def save(figure: Any, path: Path) -> None:
    """Write a figure without a background; what is drawn in `INK` is light where the reader prefers dark pages."""
    figure.patch.set_alpha(0.0)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.patch.set_alpha(0.0)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    dark = f'@media (prefers-color-scheme: dark) {{ [style*="fill: {INK}"] {{ fill: {INK_DARK} !important }} '
    dark += f'[style*="stroke: {INK}"] {{ stroke: {INK_DARK} !important }} }}'
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("</style>", f"{dark}</style>", 1), encoding="utf-8")
