"""The house rules that a machine can check."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
import yaml

import costgym
from costgym.experiments.board.submissions.manifest import RECORDED

ROOT = Path(__file__).parent.parent
FLOORS = ["simulators", "envs", "agents", "experiments"]
HEAVY = (
    "torch",
    "transformers",
    "trl",
    "ray",
    "sklearn",
    "plotly",
    "matplotlib",
    "pandas",
    "minari",
    "datasets",
    "stable_baselines3",
)


def test_no_module_is_in_an_import_circle_or_imports_the_package_s_face() -> None:
    """Imports inside functions and under TYPE_CHECKING count. Folders that import each other are a matter of `make lint`, and
    the package's face, which shows what lies in all of them, is imported by none of them."""
    graph = grimp.build_graph("costgym", exclude_type_checking_imports=False, cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imported) > 300
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the circle
    parts = tuple(f"costgym.{part}" for part in ("simulators", "envs", "agents", "experiments"))
    assert [module for module in imported if module.startswith(parts) and "costgym" in imported[module]] == []


def test_the_picture_of_the_floors_is_that_of_the_code() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    package, parts = (
        [name.split(".")[-1] for layer in contract["layers"] for name in layer.split(" | ")]
        for contract in contracts
        if contract["type"] == "layers"
    )
    drawn = re.findall(r"^ +(?:│ +)?((?:[a-z]+(?:  (?=[a-z]))?)+)", page.split("```")[1], re.MULTILINE)
    floors = [name for line in drawn for name in line.split()]
    assert [name for name in floors if name in package] == package
    assert [name for name in floors if name in parts] == parts
    named = re.findall(r"^ ((?:experiments|agents|envs|simulators)/[\w./]+)", page, re.MULTILINE)
    assert len(named) == 5 and all((ROOT / "costgym" / path).exists() for path in named)


def test_importing_costgym_loads_nothing_heavy() -> None:
    script = f"import sys, costgym; print([name for name in {HEAVY!r} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_quick_suite_waits_for_no_compiled_code(tmp_path: Path) -> None:
    words = ["costgym", "leaderboard", "--suite", "quick", "--episodes", "1", "--quiet", "--out", str(tmp_path / "board")]
    script = f"import atexit, sys; sys.argv = {words!r}; atexit.register(lambda: print('numba' in sys.modules))\n"
    script += "from costgym.cli import main; main()"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[-1] == "False" and "compiles" not in ran.stderr


def test_no_global_randomness_and_no_wall_clock_below_experiments() -> None:
    forbidden = {"np.random.seed", "np.random.rand", "random.random", "random.seed", "time.time"}
    suspect = re.compile(r"\.(rand|random|seed|time)\b|\b(hash|eval|exec)\b")  # other files need not be parsed
    offending = []
    for path in sorted(path for floor in FLOORS[:3] for path in (ROOT / floor).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if suspect.search(text) else ():
            if isinstance(node, ast.Attribute) and suspect.search(f".{node.attr}") and ast.unparse(node) in forbidden:
                offending.append((str(path.relative_to(ROOT)), node.lineno))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hash", "eval", "exec"):
                offending.append((str(path.relative_to(ROOT)), node.lineno))
    assert offending == []


def test_every_file_that_names_the_version_names_the_same() -> None:
    """The citation names the last release; between releases the version is a development one with a section of its own."""
    version = costgym.__version__
    assert importlib.metadata.version("costgym") == version
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines() if line.startswith("## ")]
    released = [heading for heading in headings if heading != "## Unreleased"]
    assert released[0] == f"## {citation['version']} - {citation['date-released'].isoformat()}"
    if ".dev" in version:
        assert headings[0] == "## Unreleased" and version.split(".dev")[0] > citation["version"]
    else:
        assert version == citation["version"]


def test_beside_a_folder_named_costgym_the_installed_package_is_imported(tmp_path: Path) -> None:
    # a checkout lies in a folder of this name, and Python starts to look in the folder that it runs in
    (tmp_path / "costgym").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    shown = subprocess.run(
        [sys.executable, "-c", "import costgym; print(costgym.make.__name__)"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.stdout.strip() == "make", shown.stderr


def test_gymnasium_makes_an_environment_without_an_import_of_costgym() -> None:
    # Gymnasium 1 has no plug-in entry points any more; an id may name the module that registers it
    script = "import gymnasium; print(gymnasium.make('costgym:costgym/Marketplace-v0').spec.id)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert shown.stdout.strip() == "costgym/Marketplace-v0", shown.stderr


def test_every_file_of_the_recorded_rows_is_packed(monkeypatch):
    # setuptools takes no folder with a dot in its name for a part of a package
    setuptools = pytest.importorskip("setuptools", reason="setuptools is not installed")
    if not (ROOT / "pyproject.toml").is_file():
        pytest.skip("not a checkout")
    monkeypatch.chdir(ROOT)
    distribution = setuptools.Distribution()
    distribution.parse_config_files()
    distribution.script_name = "setup.py"
    command = distribution.get_command_obj("build_py")
    command.ensure_finalized()
    packed = {(Path(source) / name).resolve() for _, source, _, names in command.data_files for name in names}
    rows = {path.resolve() for path in RECORDED.rglob("*") if path.is_file()}
    assert rows and not rows - packed
