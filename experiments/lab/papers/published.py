"""The papers' published results, with which `reproduce` compares ours.

Rows have the format of leaderboard rows, with the metrics that the paper reports and their `source`. Shares are from 0 to 1.
"""

from collections.abc import Sequence
from typing import Any

from ....simulators.errors import UnknownName

Row = dict[str, Any]


def _rows(source: str, keys: Sequence[str], table: Sequence[Sequence[Any]], **common: Any) -> list[Row]:
    rows = []
    for values in table:
        figures = {key: value for key, value in zip(keys, values, strict=True) if value is not None}
        rows.append({**figures, **common, "source": source, "ci95": {}})
    return rows


def _grid(source: str, keys: Sequence[str], columns: Sequence[str], table: str, **common: Any) -> list[Row]:
    """Rows of a table in text: the first key before the first bar, the second by column, then the others; "-" is no figure."""
    rows = []
    for line in table.strip().splitlines():
        name, *cells = (cell.strip() for cell in line.split("|"))
        for column, cell in zip(columns, cells, strict=True):
            rows.append((name, column, *(None if figure == "-" else float(figure) for figure in cell.split())))
    return _rows(source, keys, rows, **common)


_GPT_3_5: dict[str, Any] = {"model": "gpt-3.5-turbo-0125", "budget": {"price": 20.0}}
_BTP = _rows(
    "BTP (arXiv 2402.15960), Tables 2 and 3: 6 ToolBench subsets, 5 candidate tools, costs 1 to 10, R = 20",
    ("agent", "judged_pass_rate_under_budget", "average_cost", "judged_pass_rate", "budget_failure_rate"),
    [
        ("react", 0.341, 15.4, 0.440, 0.264),
        ("react+prompt", 0.365, 15.7, 0.445, 0.239),
        ("react+btp", 0.437, 6.9, 0.437, 0.0),
        ("dfsdt", 0.288, 78.3, 0.638, 0.603),
        ("dfsdt+prompt", 0.290, 73.3, 0.638, 0.592),
        ("dfsdt+btp", 0.645, 9.2, 0.645, 0.0),
        ("tot-dfs", 0.102, 51.4, 0.616, 0.863),
        ("tot-dfs+prompt", 0.098, 49.7, 0.631, 0.867),
        ("tot-dfs+btp", 0.641, 10.8, 0.641, 0.0),
    ],
    **_GPT_3_5,
) + _rows(
    "BTP, Table 4: subset I1-Inst, R = 20",
    ("agent", "average_cost", "uses"),
    [("plan", 13.9, 2.9), ("react+btp", 7.6, 1.5), ("dfsdt+btp", 9.6, 1.8), ("tot-dfs+btp", 11.7, 2.3)],
    **_GPT_3_5,
    group="I1-Inst",
)

_GPT_4O: dict[str, Any] = {"model": "gpt-4o", "budget": {}}
_PASSES = ("judged_pass_rate", "average_cost")
_ECOACT = [
    *_grid(
        "EcoAct, Table 1: ToolBench G1, G2, G3; US cents a query",
        ("group", "agent", *_PASSES),
        ("react", "react+ecoact"),
        """
        G1 | 0.198 4.9  | 0.201 3.7
        G2 | 0.205 6.7  | 0.208 4.8
        G3 | 0.184 10.7 | 0.211 5.8
        """,
        **_GPT_4O,
    ),
    *_grid(
        "EcoAct, Table 2: G2 and G3, instructions",
        ("group", "agent", *_PASSES),
        ("dfsdt", "dfsdt+ecoact"),
        """
        G2 | 0.318 30.8 | 0.318 22.9
        G3 | 0.289 44.3 | 0.263 21.8
        """,
        **_GPT_4O,
    ),
    *_grid(
        "EcoAct, Tables 3 and 4: G2 and G3, instructions",
        ("group", "agent", *_PASSES),
        ("react+ecoact-several", "react+ecoact-described"),
        """
        G2 | 0.149 4.5 | 0.214 6.3
        G3 | 0.132 5.4 | 0.184 9.6
        """,
        **_GPT_4O,
    ),
    *_grid(
        "EcoAct, Figure 3: change of cost by number of candidate tools; slightly dearer up to 10",
        ("group", "agent", "cost_change"),
        ("react+ecoact",),
        "more than 20 | -0.54",
        **_GPT_4O,
    ),
]

_DEER_KEYS = ("agent", "p_no_search", "p_search", "p_ds", "p_no_call", "p_call", "p_dc")
_DEER = [
    *_rows(
        "DEER (arXiv 2402.16696), Table 1: validation set, seen tools",
        _DEER_KEYS,
        [
            ("LLaMA2-13B-Chat, 6 shots", 0.444, 0.744, 0.700, 0.735, 0.477, 0.569),
            ("GPT-3.5-Turbo, 6 shots", 0.438, 0.725, 0.673, 0.592, 0.574, 0.582),
            ("GPT-4, 6 shots", 0.743, 0.789, 0.781, 0.873, 0.877, 0.876),
            ("ToolDEER-7B", 0.941, 0.984, 0.977, 0.835, 0.837, 0.834),
            ("ToolDEER-13B", 0.959, 0.992, 0.986, 0.889, 0.884, 0.882),
        ],
        split="valid",
    ),
    *_rows(
        "DEER, Table 3: test set, unseen tools",
        ("agent", "p_no_call", "p_call", "p_dc"),
        [
            ("LLaMA2-13B-Chat, 6 shots", 0.765, 0.481, 0.584),
            ("GPT-3.5-Turbo, 6 shots", 0.615, 0.596, 0.604),
            ("GPT-4, 6 shots", 0.886, 0.894, 0.890),
            ("ToolLLaMA-7B", 0.054, 0.793, 0.497),
            ("ToolAlpaca-13B", 0.027, 0.903, 0.552),
            ("ToolDEER-7B", 0.840, 0.852, 0.845),
            ("ToolDEER-13B", 0.880, 0.915, 0.892),
        ],
        split="test",
    ),
]

_LEVELS = ("statement", "category", "tool", "api", "hybrid")
_BY_LEVEL = ("agent", "level", "match_rate", "meaningful_rate", "win_rate")  # statements name no tools, so they have no match
_TOOLPLANNER = [
    *_grid(
        "ToolPlanner (arXiv 2409.14826), Table 1; match at the level's own granularity",
        _BY_LEVEL,
        _LEVELS,
        """
        ToolLLaMA-Tree | - 0.68 0.73 | 0.08 0.6 0.64 | 0.22 0.74 0.77 | 0.09 0.66 0.73 | 0.13 0.53 0.69
        GPT4-Tree      | - 0.67 0.74 | 0.1 0.63 0.79 | 0.38 0.68 0.66 | 0.14 0.64 0.76 | 0.24 0.45 0.63
        ToolPlanner    | - 0.88 0.78 | 0.59 0.89 0.79 | 0.57 0.84 0.77 | 0.52 0.83 0.8 | 0.37 0.78 0.75
        """,
    ),
    *_grid(
        "ToolPlanner, Table 5; match at the level's own granularity",
        _BY_LEVEL,
        _LEVELS,
        """
        ToolLLaMA-Tree, fine-tuned | - 0.63 0.7 | 0.37 0.52 0.48 | 0.45 0.46 0.46 | 0.35 0.32 0.38 | 0.32 0.29 0.33
        without both feedbacks     | - 0.56 0.59 | 0.3 0.5 0.49 | 0.5 0.43 0.44 | 0.37 0.33 0.35 | 0.31 0.31 0.37
        without completion         | - 0.46 0.44 | 0.37 0.5 0.49 | 0.4 0.38 0.38 | 0.21 0.2 0.22 | 0.22 0.2 0.24
        without following          | - 0.84 0.8 | 0.16 0.87 0.79 | 0.14 0.81 0.74 | 0.07 0.68 0.63 | 0.07 0.76 0.68
        without tags and path      | - 0.88 0.81 | 0.05 0.71 0.67 | 0.25 0.84 0.76 | 0.14 0.72 0.69 | 0.11 0.66 0.64
        without tags               | - 0.69 0.63 | 0.27 0.73 0.68 | 0.28 0.74 0.67 | 0.14 0.67 0.58 | 0.15 0.71 0.66
        without path               | - 0.82 0.73 | 0.34 0.83 0.73 | 0.22 0.86 0.77 | 0.26 0.76 0.76 | 0.19 0.77 0.7
        """,
    ),
    *_grid(
        "ToolPlanner, Table 27: names of the level's own granularity",
        ("level", "agent", "tag_precision", "tag_recall", "tag_f1"),
        ("retriever@1", "retriever@3", "retriever@5", "tag extraction"),
        """
        category | 0.89 0.4198 0.5705 | 0.8413 0.75 0.793 | 0.7479 0.8538 0.7974 | 0.9906 0.9953 0.9929
        tool     | 0.99 0.4439 0.613 | 0.9505 0.7758 0.8543 | 0.8472 0.87 0.8584 | 0.991 0.9865 0.9888
        api      | 0.94 0.3333 0.4921 | 0.745 0.7872 0.7655 | 0.537 0.9255 0.6797 | 0.9752 0.9752 0.9752
        hybrid   | 0.86 0.305 0.4503 | 0.6734 0.7092 0.6908 | 0.4949 0.8617 0.6287 | 0.8486 0.8546 0.8516
        """,
    ),
]

_SEQUENTIAL = """
zero-shot, GPT-3.5   | 0.694 0.170 2.457 0.197 | 0.585 0.134 2.526 0.174 | 0.639 0.152 2.491 0.186
few-shot, GPT-3.5    | 0.715 0.148 2.073 0.227 | 0.618 0.123 2.331 0.201 | 0.666 0.136 2.202 0.214
hugginggpt, GPT-3.5  | 0.674 0.127 1.782 0.226 | 0.617 0.087 1.656 0.231 | 0.645 0.107 1.714 0.228
hydra, GPT-3.5       | 0.558 0.035 0.460 0.248 | 0.625 0.062 1.144 0.258 | 0.591 0.049 0.802 0.253
zero-shot, GPT-4     | 0.699 0.163 2.260 0.206 | 0.616 0.150 2.844 0.176 | 0.658 0.156 2.552 0.190
few-shot, GPT-4      | 0.714 0.148 2.098 0.225 | 0.616 0.133 2.509 0.190 | 0.665 0.141 2.304 0.208
hugginggpt, GPT-4    | 0.675 0.131 1.893 0.221 | 0.616 0.085 1.615 0.232 | 0.646 0.108 1.754 0.227
hydra, GPT-4         | 0.597 0.050 0.615 0.253 | 0.623 0.058 1.079 0.259 | 0.610 0.054 0.847 0.256
ift, Llama2-7B       | 0.616 0.245 4.441 0.092 | 0.651 0.176 2.619 0.170 | 0.634 0.210 3.530 0.131
rltf, Llama2-7B      | 0.743 0.234 4.310 0.165 | 0.687 0.166 2.284 0.196 | 0.715 0.200 3.297 0.181
catp, Llama2-7B      | 0.711 0.106 1.866 0.262 | 0.651 0.074 0.876 0.260 | 0.681 0.090 1.371 0.261
"""
_NONSEQUENTIAL = """
zero-shot, GPT-3.5   | 0.506 0.178 2.632 0.095 | 0.150 0.121 1.938 -0.031 | 0.328 0.149 2.285 0.032
few-shot, GPT-3.5    | 0.318 0.091 1.686 0.079 | 0.244 0.133 1.991 0.004 | 0.281 0.112 1.839 0.041
hugginggpt, GPT-3.5  | 0.349 0.164 2.108 0.029 | 0.267 0.086 1.049 0.057 | 0.308 0.125 1.579 0.043
hydra, GPT-3.5       | 0.184 0.027 0.210 0.068 | 0.269 0.087 1.387 0.058 | 0.227 0.057 0.798 0.064
zero-shot, GPT-4     | 0.654 0.252 3.619 0.105 | 0.315 0.206 3.169 -0.024 | 0.485 0.229 3.394 0.040
few-shot, GPT-4      | 0.635 0.197 2.530 0.143 | 0.330 0.142 1.991 0.039 | 0.482 0.170 2.261 0.091
hugginggpt, GPT-4    | 0.624 0.199 2.670 0.136 | 0.326 0.138 1.938 0.040 | 0.475 0.168 2.304 0.088
hydra, GPT-4         | 0.326 0.038 0.712 0.129 | 0.347 0.118 2.005 0.069 | 0.337 0.077 1.358 0.099
ift, Llama2-7B       | 0.176 0.158 1.485 -0.051 | 0.516 0.215 2.676 0.068 | 0.346 0.186 2.080 0.008
rltf, Llama2-7B      | 0.323 0.150 1.400 0.029 | 0.478 0.226 2.553 0.039 | 0.401 0.188 1.976 0.034
catp, Llama2-7B      | 0.641 0.093 0.753 0.238 | 0.528 0.134 0.706 0.145 | 0.585 0.114 0.730 0.192
"""


def _catp(source: str, tasks: str, groups: Sequence[str], table: str) -> list[Row]:
    """Rows by agent and group of tasks; the prompted agents, which are there with two models, are named with theirs."""
    rows = _grid(source, ("agent", "group", *_CATP_KEYS), groups, table, tasks=tasks, alpha=0.5)
    for row in rows:
        agent, row["model"] = row["agent"].split(", ")
        row["agent"] = row["agent"] if row["model"].startswith("GPT") else agent
    return rows


_CATP_KEYS = ("score", "average_cost", "average_seconds", "quality_of_plan")
_CATP = [
    *_catp("CATP-LLM (arXiv 2411.16313), Table 2: sequential tasks", "sequential", ("image", "text", "average"), _SEQUENTIAL),
    *_catp("CATP-LLM, Table 3: non-sequential tasks", "nonsequential", ("text", "image and text", "average"), _NONSEQUENTIAL),
    *_rows(
        "CATP-LLM, Table 4: ablations, sequential tasks",
        ("agent", "score", "average_cost", "plan_validity", "quality_of_plan"),
        [
            ("catp-no-context", 0.654, 0.092, 1.0, 0.246),
            ("catp-no-feedback", 0.708, 0.164, 1.0, 0.209),
            ("catp-no-mask", 0.634, 0.086, 0.702, 0.242),
        ],
        tasks="sequential",
        group="average",
        alpha=0.5,
        model="Llama2-7B",
    ),
]

PUBLISHED = {"btp": _BTP, "ecoact": _ECOACT, "deer": _DEER, "toolplanner": _TOOLPLANNER, "catp": _CATP}


def published(name: str) -> list[Row]:
    """Return copies of a paper's rows."""
    if name not in PUBLISHED:
        raise UnknownName("paper", name, PUBLISHED)
    return [dict(row) for row in PUBLISHED[name]]
