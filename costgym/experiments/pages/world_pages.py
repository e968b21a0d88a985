"""Pages of worlds: a forged one with its tools, flow of ids and tasks, and one fitted to a log beside that log."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from costgym.experiments.fit.calibration.calibrate import Calibration, written
from costgym.experiments.fit.calibration.fits import WORKS
from costgym.experiments.fit.calibration.judge import FIGURES, Chain
from costgym.experiments.pages.charts import Estimate, distributions, estimates
from costgym.experiments.pages.html import asset, render
from costgym.simulators.scenario import parse_scenario

MAX_NODES, MAX_TASKS = 28, 12
COLUMN, ROW, BOX, TALL = 250, 46, 190, 30  # units of the drawing: from one box to the next, and the size of a box


def world_page(document: Mapping[str, Any]) -> str:
    """A world of the kind `forged` as a page that works from disk, has no script and asks nothing of the network."""
    world = parse_scenario(dict(document)).build()
    source = document["source"]
    tasks = [world.tasks[number] for number in world.tasks.numbers("test")[:MAX_TASKS]]
    writes = [tool["name"] for tool in source["tools"] if tool.get("writes")]
    return render(
        "forged-world.html",
        css=Markup(asset("page.css")),
        name=document["name"],
        documents=source["documents"],
        tools=[_tool(tool) for tool in world.catalog],
        graph=_graph(source["capabilities"], source["entities"]),
        capabilities=len(source["capabilities"]),
        tasks=[_task(task) for task in tasks],
        writes=writes,
        currency=str(document.get("currency", "credits")),
    )


def _tool(tool: Any) -> dict[str, Any]:
    profile = tool.profile
    limits = [f"{profile.rate_limit} a minute" if profile.rate_limit and profile.window_s == 60 else ""]
    limits += [f"{profile.quota} an episode" if profile.quota else ""]
    return {
        "name": tool.name,
        "about": tool.description,
        "provider": tool.provider,
        "fee": f"{profile.fee:.4g}",
        "seconds": f"{profile.advertised_latency_s:.3g}",
        "success": f"{profile.advertised_success:.0%}",
        "true": f"{profile.reliability:.0%}",
        "limits": ", ".join(filter(None, limits)) or "–",
    }


def _task(task: Any) -> dict[str, Any]:
    steps = [
        {"wish": need.wish, "fact": need.fact, "tools": len(need.tools), "after": ", ".join(str(n + 1) for n in need.after)}
        for need in task.needs
    ]
    return {"query": task.query, "steps": steps}


def _graph(capabilities: Sequence[Mapping[str, Any]], entities: Mapping[str, Any]) -> dict[str, Any]:
    """Boxes and arrows: each operation to the right of those whose ids it takes."""
    takes = {
        capability["name"]: {a["entity"] for a in capability["arguments"] if a.get("entity")} for capability in capabilities
    }
    gives = {capability["name"]: {f["entity"] for f in capability["facts"] if f.get("entity")} for capability in capabilities}
    pairs = [(a, b, e) for a in gives for b in takes if a != b for e in sorted(gives[a] & takes[b])]
    linked = {name for a, b, _ in pairs for name in (a, b)}
    names = [name for name in takes if name in linked][:MAX_NODES]
    shown = [(a, b, e) for a, b, e in pairs if a in names and b in names]
    depth = _depths(names, shown)
    rows: dict[int, int] = {}
    boxes = {}
    for name in names:
        row = rows.get(depth[name], 0)
        rows[depth[name]] = row + 1
        boxes[name] = {"x": 10 + COLUMN * depth[name], "y": 10 + ROW * row, "name": name}
    arrows = [_arrow(boxes[a], boxes[b], f"{a} gives the {entities[e]['noun']}'s id to {b}") for a, b, e in shown]
    width = 60 + BOX + COLUMN * max(depth.values(), default=0)
    height = 20 + ROW * max(rows.values(), default=0)
    return {"boxes": list(boxes.values()), "arrows": arrows, "width": width, "height": height, "box": BOX, "tall": TALL}


def _depths(names: Sequence[str], pairs: Sequence[tuple[str, str, str]]) -> dict[str, int]:
    """The column of each operation: how many others stand between it and one that takes no id of theirs, at most three."""
    taking = {b for _, b, _ in pairs}
    depth = {name: 0 for name in names if name not in taking} or {names[0]: 0} if names else {}
    for column in range(1, 4):
        reached = {b for a, b, _ in pairs if depth.get(a) == column - 1 and b not in depth}
        depth |= dict.fromkeys(sorted(reached), column)
    return {name: depth.get(name, 0) for name in names}


def _arrow(a: Mapping[str, Any], b: Mapping[str, Any], words: str) -> dict[str, Any]:
    """A curve from the right of one box to the left of another, or to its right where it does not stand further right."""
    ahead = b["x"] > a["x"]
    x1, y1, x2, y2 = a["x"] + BOX, a["y"] + TALL / 2, b["x"] + (0 if ahead else BOX), b["y"] + TALL / 2
    turn = x2 - 40 if ahead else max(x1, x2) + 34
    return {"path": f"M{x1},{y1} C{x1 + 40},{y1} {turn},{y2} {x2},{y2}", "words": words}


MAX_POINTS = 300
SHARES = ("success", "failure_after_failure", "refused")


def calibration_page(calibration: Calibration) -> str:
    """The report as a page that works from disk, has no script and asks nothing of the network."""
    report = calibration.report
    written_tools = calibration.document["source"].get("tools", [])
    tools = [
        _calibrated(name, row, calibration) | _fitted(row, written_tools[number : number + 1])
        for number, (name, row) in enumerate(report["tools"].items())
    ]
    judged = [figure["within"] for row in report["tools"].values() for figure in row.get("reproduced", {}).values()]
    return render(
        "calibration.html",
        css=Markup(asset("page.css")),
        curves=Markup(asset("curves.css")),
        name=calibration.scenario.name,
        report=report,
        tools=tools,
        tasks=_recorded(calibration.document),
        charts=any(tool["charts"] for tool in tools),
        currency=str(calibration.document.get("currency", "credits")),
        judged=len(judged),
        within=sum(judged),
    )


def _calibrated(name: str, row: Mapping[str, Any], calibration: Calibration) -> dict[str, Any]:
    reproduced, unseen = row.get("reproduced", {}), calibration.report["unseen"]["tools"].get(name, {}).get("figures", {})
    rows = [
        {
            "title": FIGURES[figure],
            "log": written(figure, value["log"]),
            "low": written(figure, value["ci95"][0]),
            "high": written(figure, value["ci95"][1]),
            "world": written(figure, value["world"]),
            "within": value["within"],
            "unseen": _unseen(figure, unseen.get(figure)),
        }
        for figure, value in reproduced.items()
    ]
    return {"name": name, "calls": row["calls"], "rows": rows, "charts": _charts(name, reproduced, calibration)}


def _fitted(row: Mapping[str, Any], written_tool: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A line of the table of tools: what the log says of one, and what the scenario has of it."""
    low, high = row["success_ci95"]
    schema = written_tool[0].get("input_schema", {}) if written_tool else {}
    return {
        "success": f"{row['success']:.1%}",
        "interval": f"{low:.1%}–{high:.1%}",
        "price": "–" if row["price"] is None else f"{row['price']['fee']:.3g}",
        "seconds": "–" if row["latency"] is None else f"{row['latency']['median_s']:.3g}",
        "takes": ", ".join(schema.get("properties", {})) or "–",
        "writes": bool(written_tool and written_tool[0].get("writes")),
    }


def _recorded(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Some tasks that a log was made into: their queries, and the calls with the facts that answer them."""
    tasks = document["source"].get("tasks")
    return [
        {
            "query": task["query"],
            "steps": [
                {
                    "call": need["capability"],
                    "arguments": ", ".join(f"{name} {_link(value)}" for name, value in need.get("arguments", {}).items()),
                    "fact": need["fact"],
                    "asked": need.get("asked", True),
                }
                for need in task["needs"]
            ],
        }
        for task in (tasks if isinstance(tasks, list) else [])[:MAX_TASKS]
        if "query" in task and "fact" in task["needs"][0]
    ]


def _link(value: Any) -> str:
    """An argument in words: the result of an earlier call, or the value itself."""
    text = str(value)
    return f"from call {int(text[1:-1]) + 1}" if text[:1] == "{" and text[1:-1].isdigit() else text


def _unseen(figure: str, value: Mapping[str, Any] | None) -> str:
    if value is None:
        return "–"
    text = f"{written(figure, value['log'])}, predicted {written(figure, value['world'])}"
    return text if value["within"] else f"{text} (outside)"


def _charts(name: str, reproduced: Mapping[str, Any], calibration: Calibration) -> list[dict[str, Any]]:
    charts = []
    curves = [_seconds(chains) for chains in (calibration.logged.get(name, ()), calibration.simulated.get(name, ()))]
    if all(len(curve) > 1 for curve in curves):
        chart = distributions(curves, f"{name}: durations in the log and in the world")
        charts.append({"title": "Durations of calls that worked", "chart": chart})
    shares = [
        Estimate(FIGURES[figure], value["log"], value["ci95"][0], value["ci95"][1], value["world"])
        for figure, value in reproduced.items()
        if figure in SHARES
    ]
    if shares:
        charts.append({"title": "Shares of calls", "chart": estimates(shares, f"{name}: shares in the log and in the world")})
    return charts


def _seconds(chains: Sequence[Chain]) -> list[float]:
    """Durations of calls that worked, ascending; evenly spaced ones of them where there are many."""
    durations = sorted(call.latency_s for chain in chains for call in chain if call.status in WORKS and call.latency_s)
    if len(durations) <= MAX_POINTS:
        return durations
    return [durations[round(index * (len(durations) - 1) / (MAX_POINTS - 1))] for index in range(MAX_POINTS)]
