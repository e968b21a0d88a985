"""Check the footnotes of the results that say how something was measured, and count what a reader has to read.

    python docs/extensions/measured.py                      # words, numbers and measurements of each page

Such a footnote is plain Markdown, so that a page reads alike on GitHub and on the site:

    [^name]: Measured: `COMMAND`, more words; MACHINE; YYYY-MM-DD; [figures](FILE).

A file may stand in backticks; a figure that no file keeps is ``printed, not stored``.
"""

import re
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (
    *sorted((DOCS / "results").glob("*.md")),
    *(DOCS / f"{name}.md" for name in ("adversaries", "baselines", "differences", "reproduce", "speed", "tested")),
)
FOOTNOTE = re.compile(r"^\[\^([\w-]+)\]: ((?:.+\n?)(?:    .+\n?)*)", re.MULTILINE)
SCRIPT = re.compile(r"(?:benchmarks|examples|tests)/[\w/.-]+\.py")
NOT_STORED = "printed, not stored"


def footnotes(page: Path) -> dict[str, str]:
    """The texts of a page's footnotes, each in one line, by name."""
    text = page.read_text(encoding="utf-8")
    return {name: " ".join(note.split()) for name, note in FOOTNOTE.findall(text)}


def measurements(page: Path) -> dict[str, str]:
    """Those of its footnotes that say how something was measured."""
    return {name: note for name, note in footnotes(page).items() if note.startswith("Measured:")}


def problems(page: Path) -> list[str]:
    """What a page's footnotes lack, a sentence each; none on a page that is right."""
    text = page.read_text(encoding="utf-8")
    problems = [f"{name}: nothing refers to it" for name in footnotes(page) if text.count(f"[^{name}]") < 2]
    for name, note in measurements(page).items():
        parts = note.removeprefix("Measured:").split("; ")
        days = re.findall(r"\b\d{4}-\d\d-\d\d\b", note)
        if not re.search(r"`[^`]+`", parts[0]):
            problems.append(f"{name}: expected a command in backticks first")
        if len(parts) < 4:
            problems.append(f"{name}: expected command; machine; date; file")
        if not any(_is_date(day) for day in days):
            problems.append(f"{name}: expected a date, got {days}")
        problems += [f"{name}: no script {script}" for script in SCRIPT.findall(note) if not (ROOT / script).is_file()]
        linked = [page.parent / target for target in re.findall(r"\]\(([^)#]+)\)", note)]
        named = [ROOT / path for path in re.findall(r"`((?:benchmarks|experiments)/[\w/.-]+)`", note)]
        if not any(path.exists() for path in [*linked, *named]) and NOT_STORED not in note:
            problems.append(f"{name}: expected a file with the figures, or '{NOT_STORED}'")
    return problems


def _is_date(day: str) -> bool:
    try:
        return date.fromisoformat(day) <= date.today()
    except ValueError:
        return False


def counts(text: str) -> tuple[int, int, int]:
    """Words as `wc -w` has them, words of prose (no tables, code, footnotes), and numbers in that prose."""
    prose = re.sub(r"^```.*?^```$", "", FOOTNOTE.sub("", text), flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^\|.*$|\]\([^)]*\)|`[^`]*`|<!--.*?-->", "", prose, flags=re.MULTILINE)
    return len(text.split()), len(prose.split()), len(re.findall(r"\d[\d,.]*", prose))


def main() -> None:
    totals = [0, 0, 0, 0]
    print(f"{'page':28} {'words':>7} {'prose':>7} {'numbers in 100 words of it':>28} {'measurements':>13}")
    for page in PAGES:
        words, prose, numbers = counts(page.read_text(encoding="utf-8"))
        row = (words, prose, numbers, len(measurements(page)))
        totals = [total + value for total, value in zip(totals, row, strict=True)]
        print(_line(page.relative_to(DOCS).as_posix(), row))
    print(_line(f"{len(PAGES)} pages", tuple(totals)))


def _line(name: str, row: tuple[int, ...]) -> str:
    words, prose, numbers, notes = row
    return f"{name:28} {words:7,} {prose:7,} {100 * numbers / max(prose, 1):28.1f} {notes:13}"


if __name__ == "__main__":
    sys.exit(main())
