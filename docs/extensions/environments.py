"""The pages of the environments, made from their docstrings and from the environments themselves.

A page in the checkout holds an environment's summary and card, which `python docs/extensions/environments.py` writes and a test
compares. The site adds an episode's chart and the specification; a docstring's ``## `` headings are the page's sections. What a
class shares with its bases, the rows of the tables *Arguments* and *Information*, is taken from the bases' docstrings. Types
and defaults of arguments, the spaces and the native batch are read from the code.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tempfile
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_origin

import gymnasium as gym
import numpy as np
from docs.extensions import cards
from typer.testing import CliRunner

import costgym
from costgym.cli.app import app as command_line
from costgym.envs.registration import USES, class_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(costgym.__file__).parents[1]
PAGES = ROOT / "docs" / "environments"
GENERATED = r"(?<=<!-- {} -->\n).*?(?=<!-- end -->)"  # what stands between two comments

SHARED = ("Arguments", "Information")
EPISODES = {
    "costgym/Marketplace-v0": ["--agent", "greedy", "--scenario", "storm", "--task", "18"],
    "costgym/MarketplaceChat-v0": ["--agent", "react", "--scenario", "storm", "--task", "7"],
    "costgym/MarketplaceChat-v1": ["--agent", "react", "--scenario", "storm", "--task", "7"],
    "costgym/OpenCATP-v0": ["--agent", "oracle", "--task", "20"],
    "costgym/OpenCATP-v1": ["--agent", "oracle", "--task", "28"],
    "costgym/OpenCATPChat-v0": ["--agent", "hydra", "--task", "22"],
    "costgym/OpenCATPChat-v1": ["--agent", "hydra", "--task", "22"],
    "costgym/OpenCATPCalls-v0": ["--agent", "fixed-all", "--task", "25"],
    "costgym/MarketplaceSession-v0": ["--agent", "optimistic", "--task", "0"],
    "costgym/MarketplaceSession-v1": ["--agent", "optimistic", "--task", "0"],
    "costgym/MarketplaceSessionChat-v0": ["--agent", "cheapest", "--task", "0"],
    "costgym/MarketplaceSessionChat-v1": ["--agent", "cheapest", "--task", "0"],
    "costgym/DecisionAware-v0": ["--agent", "deer", "--task", "400"],
}  # the episode that a page shows, as arguments of `costgym show`

LINKS = {
    "CostGymError": "costgym.CostGymError",
    "DecisionSettings": "costgym.simulators.decision.samples.DecisionSettings",
    "Profile": "costgym.simulators.opencatp.Profile",
    "Scenario": "costgym.simulators.scenario.Scenario",
    "Status": "costgym.simulators.status.Status",
}  # names in docstrings that the reference describes

Row = dict[str, str]


environment_class = class_of  # the class behind an id


def family(cls: type) -> list[type]:
    """The class and its bases in costgym, nearest first."""
    return [base for base in cls.__mro__ if base.__module__.startswith("costgym.")]


def sections(cls: type) -> dict[str, str]:
    """The sections of a page by title, the summary under "": a class's own, and those that only its bases have."""
    texts: dict[str, str] = {}
    for base in reversed(family(cls)):
        texts |= own_sections(base)
    return texts


def own_sections(cls: type) -> dict[str, str]:
    """The sections of a class's own docstring."""
    parts = re.split(r"^## (.+)$", inspect.cleandoc(vars(cls).get("__doc__") or ""), flags=re.MULTILINE)
    return {"": parts[0].strip(), **{title.strip(): text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}}


def table(text: str) -> list[Row]:
    """The rows of the first Markdown table in a text, by column."""
    lines = re.search(r"^\|.*(?:\n\|.*)*", text, re.MULTILINE)
    if lines is None:
        return []
    cells = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in lines[0].splitlines()]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def shared_rows(cls: type, title: str) -> list[Row]:
    """The rows of a table of a class's bases and its own; its own row takes the place of a base's."""
    rows: dict[str, Row] = {}
    for base in reversed(family(cls)):
        rows |= {next(iter(row.values())): row for row in table(own_sections(base).get(title, ""))}
    return list(rows.values())


def parameters(cls: Any) -> dict[str, tuple[str, Any]]:
    """Type, as the source has it, and default of every argument of an environment by name, its own before those of its base."""
    settings, by_name = cls.__init__.settings, dict[str, tuple[str, Any]]()
    for base in family(settings):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for field in definition.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                name, written = field.target.id, ast.unparse(field.annotation).strip("'")
                by_name.setdefault(name, (_type_name(base, written), getattr(settings, name)))
    return by_name


def _type_name(cls: type, annotation: str) -> str:
    """An annotation as it is written, but for names of a choice between strings."""
    names = {name for name, value in vars(sys.modules[cls.__module__]).items() if get_origin(value) is Literal}
    return re.sub(r"\w+", lambda word: "str" if word[0] in names else word[0], annotation)


def arrays(cls: type) -> dict[str, list[Row]]:
    """The observation's arrays by name, each with the rows of its table."""
    parts = re.split(r"^### `(\w+)`.*$", sections(cls)["Observation space"], flags=re.MULTILINE)
    return {name: table(text) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def _show(env_id: str, *arguments: str) -> str:
    result = CliRunner().invoke(command_line, ["show", "--env", env_id, *EPISODES[env_id], *arguments])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def _picture(env_id: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "episode.svg"
        _show(env_id, "--format", "svg", "--out", str(file))
        return file.read_text(encoding="utf-8")


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _shape(box: gym.Space[Any]) -> str:
    """An array of an observation in a few characters; ranges by column stand in the specification."""
    return f"{box.shape}" if box.dtype == np.float32 else f"{box.shape} {box.dtype}"


def _facts(env_id: str, env: gym.Env[Any, Any]) -> list[str]:
    spec, cls = gym.spec(env_id), environment_class(env_id)
    arrays = f"`{env.observation_space}`"
    if isinstance(env.observation_space, gym.spaces.Dict):
        arrays = ", ".join(f"`{name}` {_shape(box)}" for name, box in env.observation_space.items())
    world: Any = env.unwrapped
    budget = "drawn" if "Session" in env_id else world.budget
    batch = "" if spec.vector_entry_point is None else "; native batch"
    return [
        f"* Use: {USES[env_id]}",
        f"* Action: `{env.action_space}`",
        f"* Observation: {arrays}",
        f"* Reward: {_reward(cls)}",
        f"* Cost: {world.world_spec().summary()['currency']}; budget: {budget}",
        f"* Horizon: {cards.horizon(env_id)}",
        *cards.rows(env_id),
        f"* Class: [`{spec.entry_point}`]({_source(env_id)}), [world](versions.md) {' and '.join(map(str, cls.worlds))}{batch}",
    ]


def _reward(cls: type) -> str:
    """The first sentence about rewards; where it refers to another environment, the rest of it."""
    text = " ".join(sections(cls)["Rewards"].split())
    first = re.split(r"\.\s|, so the undiscounted|; with ", text, maxsplit=1)[0].rstrip(".")
    return re.sub(r"^As in `\S+`: (?=\w)", "", first)


def _source(env_id: str) -> str:
    """The file of an environment's class, from the folder of the pages."""
    return (Path("../..") / Path(inspect.getfile(environment_class(env_id))).relative_to(ROOT)).as_posix()


def _arguments(cls: type) -> list[str]:
    arguments = parameters(cls)
    lines = ["| argument | type | default | meaning |", "| --- | --- | --- | --- |"]
    for row in shared_rows(cls, "Arguments"):
        type_, default = arguments[row["argument"].strip("`")]
        lines.append(f"| {row['argument']} | {_code(type_)} | {_code(repr(default))} | {row['meaning']} |")
    return lines


def _information(cls: type) -> list[str]:
    rows = shared_rows(cls, "Information")
    return ["| key | type | meaning |", "| --- | --- | --- |", *(f"| {' | '.join(row.values())} |" for row in rows)]


def _after_table(cls: type, title: str) -> str:
    """What a docstring says below a shared table, from the class or its nearest base."""
    for base in family(cls):
        text = re.sub(r"^\|.*\n?", "", own_sections(base).get(title, ""), flags=re.MULTILINE).strip()
        if text:
            return text
    return ""


def facts(env_id: str) -> str:
    """An environment's summary and its card in Markdown."""
    lines = _facts(env_id, costgym.make(env_id))
    return "\n".join([sections(environment_class(env_id))[""], "", *lines, ""])


def figure(env_id: str) -> str:
    """The chart of an environment's episode, with the command that draws it."""
    command = " ".join(["costgym show --env", env_id.removeprefix("costgym/"), *EPISODES[env_id], "--format svg"])
    lines = [
        "```{raw} html",
        f'<figure class="episode"><div>{_picture(env_id)}</div>',
        f"<figcaption>An episode, drawn by <code>{command}</code></figcaption></figure>",
        "```",
    ]
    return "\n".join(lines)


def body(env_id: str) -> str:
    """An environment's sections in Markdown."""
    cls = environment_class(env_id)
    texts = sections(cls)
    env = costgym.make(env_id)
    last = ("Arguments", "Information", "Version history", "References")
    lines: list[str] = []
    for title in [*(title for title in texts if title and title not in last), *last]:
        text = texts.get(title, "")
        if title in SHARED:
            table_lines = _arguments(cls) if title == "Arguments" else _information(cls)
            text = "\n".join([*table_lines, "", _after_table(cls, title)])
        if text:
            lines += [f"## {title}", "", text, ""]
    if hasattr(env.unwrapped, "action_name") and isinstance(env.action_space, gym.spaces.Discrete):
        names = [f"| {number} | `{env.unwrapped.action_name(number)}` |" for number in range(int(env.action_space.n))]
        lines += ["## All actions", "", "| action | name |", "| --- | --- |", *names, ""]
    text = re.sub(r"`(\w+)`", _link, "\n".join(lines))
    return "\n".join([text, "## The episode in words", "", "```text", _show(env_id).rstrip(), "```", ""])


def _link(name: re.Match[str]) -> str:
    return f"{{py:obj}}`{name[1]} <{LINKS[name[1]]}>`" if name[1] in LINKS else name[0]


def overview() -> str:
    """A list of all environments in Markdown, one line for the versions of one, each with a link to its page."""
    lines, alike = list[str](), defaultdict[str, list[str]](list)
    for env_id in costgym.ENV_IDS:
        alike[env_id.rpartition("-")[0]].append(env_id)
    for first, *later in alike.values():
        links = [f"[{first.removeprefix('costgym/')}]({page_name(first)}.md)"]
        links += [f"[{env_id.rpartition('-')[2]}]({page_name(env_id)}.md)" for env_id in later]
        lines.append(f"* {', '.join(links)}: {sections(environment_class(first))['']}")
    return "\n".join(lines)


def page_name(env_id: str) -> str:
    """Where an environment's page lies, without its ending: ``marketplacechat`` for ``costgym/MarketplaceChat-v0``, and
    ``marketplacechat-v1`` for the next version."""
    return env_id.removeprefix("costgym/").removesuffix("-v0").lower()


def keep_summary(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """In the reference of classes an environment has its summary only; the rest is on its page."""
    if what == "class" and isinstance(obj, type) and issubclass(obj, gym.Env):
        heading = next((number for number, line in enumerate(lines) if line.startswith("## ")), len(lines))
        del lines[heading:]


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the texts where a page asks for them: ``<!-- episode: ID -->`` and ``<!-- specification: ID -->``.

    They are put into the page's source, not made by directives: headings of a page cannot come from a directive in MyST.
    """
    text = re.sub(r"^<!-- episode: (\S+) -->$", lambda match: figure(match[1]), source[0], flags=re.MULTILINE)
    pattern = r"^<!-- specification: (\S+) -->$"
    source[0] = re.sub(pattern, lambda match: body(match[1]), text, flags=re.MULTILINE)


def with_facts(page: str) -> str:
    """A page with its generated tables as the code has them now."""
    for env_id in re.findall(r"<!-- facts: (\S+) -->", page):
        text = facts(env_id)
        page = re.sub(GENERATED.format(f"facts: {env_id}"), lambda _, text=text: text, page, flags=re.DOTALL)
    page = re.sub(GENERATED.format("figures"), lambda _: cards.footnote() + "\n", page, flags=re.DOTALL)
    return re.sub(GENERATED.format("environments"), lambda _: overview() + "\n", page, flags=re.DOTALL)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", expand)
    app.connect("autodoc-process-docstring", keep_summary, priority=400)  # before Napoleon
    return {"parallel_read_safe": True, "version": costgym.__version__}


if __name__ == "__main__":
    for path in sorted(PAGES.glob("*.md")):
        path.write_text(with_facts(path.read_text(encoding="utf-8")), encoding="utf-8")
