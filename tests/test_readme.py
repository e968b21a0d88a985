"""What the README and the guide say runs: every block of Python or shell, in the order of its page.

Blocks fenced as ``python`` or ``sh`` are executed, each page in a folder of its own with `examples`; what is meant to be
read, needs another machine or runs for hours is fenced without a language. Only lengths are cut: see `SHORTER`.
"""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import one_call, world1
from docs.extensions import appendix, measured
from tests.helpers.command_line import invoke

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
SHORTER = (
    (r"--minutes [\d.]+", "--minutes 0.05"),
    (r"--episodes \d{3,}", "--episodes 20"),
    (r"costgym baselines", "costgym baselines --methods random,greedy --seeds 1 --episodes 20"),
    (r"costgym (cost|gate)", r"costgym \1 --episodes 20"),
    (r"episodes=\d{3,}", "episodes=20"),
    (r"--seeds 5", "--seeds 1"),
    (r"total_timesteps=[\d_]+", "total_timesteps=512"),
)
"""What a reader waits minutes for, the tests do for seconds."""
OPTIONAL = ("torchrl",)
"""Libraries that only recipes use; a page ends before a block of one that is not installed."""
LONG = {
    "baselines", "calibrate", "forge", "learners", "marketplacesession-v1", "models", "offline", "proxy", "rank",
    "scale", "serve", "share", "tools", "train", "worlds",
}  # fmt: skip
"""Pages of docs/ that train policies or play whole leaderboards; only under `make test-all`."""


GUIDES = ("Start", "Evaluate", "Train", "Build worlds")
"""Groups of the navigation whose pages are guides."""


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, code) of every fenced block that is to be executed."""
    matches = re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for pattern, shorter in SHORTER:
        matches = [(language, re.sub(pattern, shorter, code)) for language, code in matches]
    return matches


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page.stem in LONG else ()) for page in PAGES if blocks(page)],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for number, (language, code) in enumerate(blocks(page)):
        for library in OPTIONAL:
            if f"from {library}" in code and importlib.util.find_spec(library) is None:
                pytest.skip(f"block {number} needs {library}")
        run_apart(language, code) if page.stem in LONG else run_here(language, code)


def run_apart(language: str, code: str) -> None:
    """Run a block in a process of its own."""
    command = [sys.executable, "-c", code] if language == "python" else ["bash", "-euo", "pipefail", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{code}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def run_here(language: str, code: str) -> None:
    """Run a block in this process, since an import of the package takes longer than most blocks; what only a shell understands
    runs in one."""
    if language == "python":
        exec(compile(code, "block", "exec"), {"__name__": "__main__"})
        return
    for line in [code] if "<<" in code else re.split(r"(?<!\|)\n", code.strip().replace("\\\n", "")):
        if re.fullmatch(r"costgym [^|<>;&$*]+", line):
            done = invoke(*shlex.split(line)[1:])
            assert done.exit_code == 0, f"{line}\n{done.output[-4000:]}"
        else:
            run_apart(language, line)


def test_every_loop_that_learns_with_pytorch_sets_its_threads() -> None:
    """Without `OMP_NUM_THREADS`, which a plain shell does not set, small networks take several times as long."""
    loops = {
        f"{page.name} {number}": code for page in PAGES for number, (_, code) in enumerate(blocks(page)) if ".learn(" in code
    }
    loops |= {path.name: code for path in ROOT.glob("examples/*.py") if ".learn(" in (code := path.read_text(encoding="utf-8"))}
    assert len(loops) >= 4
    assert [name for name, code in loops.items() if "torch.set_num_threads(1)" not in code] == []


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The names by which headings of a page are linked, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_picture_page_and_heading_that_is_linked_is_there(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", prose(page)):
        linked = page.parent / target if target else page
        assert linked.exists(), (page.name, target)
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), (page.name, target, anchor)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_code_has_at_most_80_columns(page: Path) -> None:
    fences = re.findall(r"^```([^\n-]*).*?\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert [
        line for language, code in fences if language not in ("text", "{eval") for line in code.splitlines() if len(line) > 80
    ] == []


@pytest.mark.parametrize("page", measured.PAGES, ids=lambda page: page.stem)
def test_a_measurement_names_command_machine_date_and_file(page: Path) -> None:
    assert measured.problems(page) == []


@pytest.mark.parametrize("page", appendix.PAGES, ids=lambda page: page.stem)
def test_the_tables_of_the_results_are_those_of_the_figures(page: Path) -> None:
    """`python docs/extensions/appendix.py` writes them again."""
    text = page.read_text(encoding="utf-8")
    assert appendix.with_tables(text) == text


def test_the_page_of_version_1_is_that_of_its_figures() -> None:
    """`python benchmarks/world1.py page` writes it again."""
    assert world1.page() == world1.PAGE.read_text(encoding="utf-8")


def test_a_measurement_that_lacks_something_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Twelve.[^good] Six.[^bad]\n\n"
        "[^good]: Measured: `costgym run`, twice; one core;\n    2026-11-28; [figures](page.md).\n\n"
        "[^bad]: Measured: `python benchmarks/nothing.py`; 2026-11-31; [figures](nothing.json).\n\n"
        "[^unread]: Measured: `costgym run`; one core; 2026-11-28; printed, not stored.\n"
    )
    assert measured.problems(page) == [
        "unread: nothing refers to it",
        "bad: expected command; machine; date; file",
        "bad: expected a date, got ['2026-11-31']",
        "bad: no script benchmarks/nothing.py",
        "bad: expected a file with the figures, or 'printed, not stored'",
    ]


def test_the_timeline_of_a_call_is_that_of_its_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python benchmarks/one_call.py docs/one_call.svg` draws it again and prints the lines of the page."""
    monkeypatch.chdir(ROOT)
    calls, *rest = one_call.play()
    assert one_call.draw(calls, *rest) == (ROOT / "docs/one_call.svg").read_text(encoding="utf-8")
    assert "\n".join(one_call.lines(calls)) in (ROOT / "docs/explanation/world.md").read_text(encoding="utf-8")


def test_no_two_pages_write_to_the_same_folder() -> None:
    """A reader who follows two pages in one folder meets no run of the other page."""
    written: dict[str, set[str]] = {}
    for page in PAGES:
        for _, code in blocks(page):
            for folder in re.findall(r"--out (\S+)", code):
                written.setdefault(folder, set()).add(page.name)
    assert {folder: pages for folder, pages in written.items() if len(pages) > 1} == {}


def sorted_pages() -> dict[str, list[str]]:
    """The pages of each kind, from the tables of contents of the index."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    tables = re.findall(r"^:caption: (.+?)\n\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return {kind: pages.split() for kind, pages in tables}


def test_every_page_of_the_guide_is_of_one_kind() -> None:
    kinds = sorted_pages()
    sorted_ = [page for pages in kinds.values() for page in pages]
    written = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    papers = {f"results/{path.stem}" for path in (ROOT / "benchmarks" / "results" / "reproduce").glob("*.md")}
    parts = {page for page in written if page.startswith(("environments/", "api/"))} - set(sorted_)
    assert list(kinds) == [*GUIDES, "Concepts", "Reference", "Results", "Measurements", "Project"]
    assert len(sorted_) == len(set(sorted_))
    assert {page for page in sorted_ if not page.startswith("tutorials/")} == written - papers - parts - {"index"}


@pytest.mark.parametrize("page", [page for kind in GUIDES for page in sorted_pages()[kind] if "/" not in page])
def test_a_guide_does_one_job_in_at_most_1200_words_beside_code(page: str) -> None:
    assert len(prose(ROOT / "docs" / f"{page}.md").split()) <= 1200


def test_the_readme_fits_on_eighty_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 80
