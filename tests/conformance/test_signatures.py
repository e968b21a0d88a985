"""A function has at most twelve parameters; more of them are fields of a settings model, which describes them once."""

import ast
import pydoc
from collections.abc import Iterator
from pathlib import Path

import costgym
from costgym.envs.registration import parameters_of
from costgym.experiments.train.sb3.settings import PpoSettings
from docs.extensions.command_line import options

ROOT = Path(costgym.__file__).parent
MOST = 12


def functions() -> Iterator[tuple[str, int, bool]]:
    """Each function of the package, its number of parameters, and whether it may have more of them."""
    for folder in (ROOT / "simulators", ROOT / "envs", ROOT / "agents", ROOT / "experiments", ROOT / "cli"):
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                    # compiled functions take arrays one by one, since Numba binds them as a C function's arguments
                    exempt = path.parent.name == "kernels"
                    yield f"{path.relative_to(ROOT)}:{node.name}", len(names) - (names[:1] in (["self"], ["cls"])), exempt


def test_a_function_has_at_most_twelve_parameters() -> None:
    signatures = list(functions())
    assert len(signatures) > 2000
    assert [(name, count) for name, count, exempt in signatures if count > MOST and not exempt] == []


def test_a_table_of_options_in_the_documentation_comes_from_the_settings() -> None:
    lines = options("costgym.experiments.train.sb3.settings:PpoSettings").splitlines()
    assert "| `--batch-size` | Decisions per minibatch.  [default: 1024; at least 2] |" in lines
    assert len(lines) == 2 + len(PpoSettings.model_fields)


def test_help_on_an_environment_shows_every_argument() -> None:
    counts = {}
    for env_id in costgym.ENV_IDS:
        shown = pydoc.plain(pydoc.render_doc(costgym.make(env_id))).partition(" -> ")[0]
        arguments = parameters_of(env_id)
        assert all(f" {name}: " in shown for name in arguments), env_id
        counts[env_id] = len(arguments)
    assert counts["costgym/Marketplace-v0"] == 13 and counts["costgym/MarketplaceSession-v0"] == 26
