"""The page of a leaderboard: complete without a script, safe with any name, alive in a browser."""

import copy
import csv
import io
import itertools
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from costgym.experiments.board.conditions import budget_label
from costgym.experiments.board.rows import BY_EPISODE, columns_of
from costgym.experiments.pages.answers import answer_first
from costgym.experiments.pages.first_screen import axis_of, frontier
from costgym.experiments.pages.html import unbroken
from costgym.experiments.pages.leaderboard_page import COLUMNS, page_of
from costgym.experiments.pages.table import csv_of, print_table
from costgym.experiments.play.metric_registry import REGISTRY, brief, written
from costgym.experiments.play.metrics import episode_figures, summarise
from costgym.experiments.play.results import EpisodeResult

VOID_TAGS = {"meta", "input", "br", "link", "img"}
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AGENTS = {"oracle": (None, 2, 0), "react": ("simulated", 13, 2), "react+btp": ("simulated", 6, 1), "random": (None, 15, 6)}


class Document(HTMLParser):
    """The elements of a page, with their attributes and text, checked to be well nested."""

    def __init__(self, page):
        super().__init__()
        self.open, self.elements = [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag == "wbr":  # where a name may be broken: as many as it has parts
            return
        element = {"tag": tag, "text": "", **dict(attrs)}
        self.elements.append(element)
        if tag not in VOID_TAGS:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, tag, **attributes):
        return [e for e in self.elements if e["tag"] == tag and all(e.get(k) == v for k, v in attributes.items())]


def board(names=AGENTS, limits=(10, 20, 40), episodes=12):
    rows = []
    for limit in limits:
        for name, (model, mean, fails) in names.items():
            prices = [mean * (i % 3 + 1) / 2 for i in range(episodes)]
            results = [
                EpisodeResult(
                    agent=name, model=model, env="costgym/MarketplaceChat-v0", task=str(i), episode=i, seed=0,
                    budget={"price": limit}, strict=i % 7 >= fails, judged=i % 7 >= fails - 1, share=0.5, price=price,
                    seconds=3.0, tokens=900 if model else 0, calls=3, attempts=4, errors={"tool": i % 2}, errors_by_status={},
                    exceeded="price" if price > limit else None, quality=0.3 - price / 100, regret=price / 100,
                )
                for i, price in enumerate(prices)
            ]  # fmt: skip
            keys = ("pass_rate_under_budget", "judged_pass_rate_under_budget")
            by_episode = {key: episode_figures(results, key, episodes) for key in keys}
            rows.append({**summarise(results), BY_EPISODE: by_episode})
    return {
        "format": "costgym.leaderboard/1", "suite": "quick", "seed": 0, "version": "0.1.0", "grading": "strict",
        "scenario": {"name": "marketplace", "description": "A market.", "currency": "credits"}, "rows": rows,
    }  # fmt: skip


def embedded(page):
    (script,) = Document(page).all("script", type="application/json")
    return json.loads(script["text"])


def test_the_table_holds_every_figure_without_a_script():
    leaderboard = board()
    document = Document(page_of(leaderboard))
    assert len([line for line in document.all("tr") if "data-row" in line]) == len(leaderboard["rows"])
    shown_columns = columns_of(leaderboard)
    texts = [
        e["text"]
        for e in document.elements
        if (e.get("class") or "").startswith("figure") and "style" not in e and e["tag"] == "td"
    ]
    assert len(texts) == len(shown_columns) * len(leaderboard["rows"])
    row = next(r for r in leaderboard["rows"] if r["agent"] == "react+btp" and r["budget"] == {"price": 20})
    shown = "".join(texts)
    for metric in shown_columns:
        assert brief(row[metric.key], metric.kind) in shown


def test_the_page_links_the_papers_behind_its_agents():
    page = page_of(board())
    links = {link["text"]: link["href"] for link in Document(page).all("a") if "arxiv" in link.get("href", "")}
    assert links == {
        "Budget-constrained tool learning with planning": "https://arxiv.org/abs/2402.15960",
        "ReAct: synergizing reasoning and acting in language models": "https://arxiv.org/abs/2210.03629",
    }
    assert "</a>: react, react+btp</p>" in page and "</a>: react+btp</p>" in page


def test_the_page_says_what_was_run_and_asks_nothing_of_the_network():
    page = page_of(board())
    text = Document(page).all("body")[0]["text"]
    for word in (
        "quick",
        "marketplace",
        "A market.",
        "the same 12 episodes under each of 3 budgets",
        "0.1.0",
        "costgym/MarketplaceChat-v0",
    ):
        assert word in text
    without_namespace = page.replace('<a href="https://arxiv.org/abs/', "")
    assert not re.search(r"https?://|//cdn|@import|url\(|<link|<img|<iframe|fetch\(|XMLHttp", without_namespace)
    assert "default-src 'none'" in page
    assert "innerHTML" not in page and "eval(" not in page


def test_the_same_leaderboard_gives_the_same_bytes_whatever_the_order_of_its_rows():
    leaderboard = board()
    shuffled = {**leaderboard, "rows": leaderboard["rows"][::-1]}
    assert page_of(leaderboard) == page_of(copy.deepcopy(leaderboard)) == page_of(shuffled)


@pytest.mark.parametrize(
    "name",
    [
        "</script><script>alert(1)</script>", "<!--<script>", "<img src=x onerror=alert(1)>", '" onclick="alert(1)', "a & b",
        "[[css]] $1 {0}", "line\u2028break\x1b[31m",
    ],
)  # fmt: skip
def test_a_hostile_name_stays_text(name):
    leaderboard = board({name: (name, 6, 1)})
    leaderboard |= {
        "suite": name,
        "seed": name,
        "version": name,
        "scenario": {"name": name, "description": name, "currency": name},
    }
    for row in leaderboard["rows"]:
        row["env"] = name
    page = page_of(leaderboard)
    other = board({"somebody": ("gpt", 6, 1)})
    other["scenario"]["currency"] = "x" * len(name)  # where budgets are long to read, they stand in a list
    harmless = Document(page_of(other))
    document = Document(page)
    assert [e["tag"] for e in document.elements] == [e["tag"] for e in harmless.elements]
    assert not any(key.startswith("on") for element in document.elements for key in element)
    assert embedded(page)["rows"][0]["agent"] == "".join(c if c.isprintable() else "�" for c in name)


def test_simulated_rows_say_so_and_the_oracle_has_no_rank():
    page = page_of(board())
    document = Document(page)
    for line in document.all("tr")[1:]:
        if "react" in line["text"]:
            assert "simulated" in line["text"]
        if "oracle" in line["text"]:
            assert "bound, not ranked" in line["text"] and line["class"] == "reference"
    kinds = {dot["name"]: dot["kind"] for dot in embedded(page)["dots"]}
    assert kinds == {"oracle": "bound", "react": "simulated", "react+btp": "simulated", "random": "played"}
    assert "Some language models, marked in the table, are simulated" in page and "†" not in page


def test_simulated_rows_stand_below_a_heading_of_their_own_and_are_ranked_among_themselves():
    document = Document(page_of(board()))
    texts = [e["text"] for e in document.elements if e.get("class") in ("name", "heading", "rank")]
    heading = next(index for index, text in enumerate(texts) if text.startswith("With a simulated language model"))
    assert set(texts[2:heading:2]) == {"oracle", "random"}
    assert texts[heading + 2 :: 2] == ["react+btp", "react"] * 3
    assert [rank[0] for rank in texts[heading + 1 :: 2]] == ["1", "2"] * 3


def test_figures_of_a_real_model_bear_its_name_and_no_simulated_mark():
    page = page_of(board({"react": ("gpt-x", 6, 1)}))
    assert "gpt-x" in page
    assert "simulated" not in Document(page).all("tbody")[0]["text"]


def test_every_column_is_explained_and_every_heading_is_a_button():
    document = Document(page_of(board()))
    heads = [head for head in document.all("th", scope="col") if "data-sort" in head]
    shown = columns_of(board())
    assert {metric.key for metric in shown} < REGISTRY.keys()
    early = ["pass_rate_under_budget", "cost_per_success", "budget_failure_rate", "average_cost"]
    keys = [metric.key for metric in shown if metric.key not in early]
    assert [head["data-sort"] for head in heads] == ["rank", "agent", "condition", *early, *keys]
    assert len(document.all("button", type="button")) == len(heads) + 3  # theme, all budgets and all columns
    assert sum("more" not in head["class"] for head in heads) == 3 + COLUMNS
    assert [e["id"] for e in document.all("dd") if "id" in e] == [f"about-{key}" for key in (*early, *keys)]
    ids = {e["id"] for e in document.elements if "id" in e}
    assert {e["aria-describedby"] for e in document.elements if "aria-describedby" in e} <= ids
    assert {e["aria-labelledby"] for e in document.elements if "aria-labelledby" in e} <= ids


def test_a_leaderboard_without_rows_or_figures_still_has_a_page():
    assert "No episode has been played yet" in page_of({"rows": []})
    bare = {
        "agent": "a",
        "model": None,
        "env": "e",
        "budget": {},
        "episodes": 1,
        "grading": "strict",
        "pass_rate": None,
        "ci95": {},
    }
    document = Document(page_of({"rows": [bare]}))
    assert "–" in document.all("tr")[1]["text"]
    assert "unlimited" in document.all("tr")[1]["text"]


@pytest.mark.parametrize("values", [(-0.712,), (-0.7, -0.7), (0.0,), (), (0.2, 0.2), (-1e-12,)])
def test_a_scale_of_equal_figures_has_a_width(values):
    for from_zero in (True, False):
        axis = axis_of(values, from_zero)
        assert axis.low < axis.high and len(set(axis.ticks)) > 1
        assert all(0.0 <= axis.at(value) <= 1.0 for value in values)


def test_budgets_and_figures_read_as_people_write_them():
    assert budget_label({"seconds": 60, "price": 1000}, "credits") == "1,000 ¢, 60 s"
    assert budget_label({"price": 0.5}, "USD") == "$0.5"
    assert budget_label({"price": 20}) == "price 20"
    assert budget_label({}) == budget_label(None) == "unlimited"
    assert [written(x, "rate") for x in (0.12345, 1.0, 0.0, None)] == ["12.3", "100.0", "0.0", "–"]
    assert [written(x, "signed") for x in (-0.0001, -0.25, 0.5)] == ["0.000", "−0.250", "0.500"]
    assert [written(x, "number") for x in (0.0, 0.00123, 0.12945, 3.14159, 12345.6)] == [
        "0.00",
        "0.00123",
        "0.129",
        "3.14",
        "12,346",
    ]


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_marks_stand_out_from_the_paper(theme):
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", page_of(board()))
    colours = {name: pair[theme] for name, *pair in pairs}
    assert sum(name[0] == "c" for name in colours) == 12
    for name in ("ink", "quiet", "accent"):
        assert contrast(colours[name], colours["paper"]) >= 4.5
        assert contrast(colours[name], colours["raised"]) >= 4.5
    for k in range(12):
        assert contrast(colours[f"c{k}"], colours["paper"]) >= 3.0


PROBE = """
<script>
addEventListener("load", () => setTimeout(() => {
  const q = (s) => [...document.querySelectorAll(s)];
  const text = (s) => q(s)[0].textContent;
  const shown = () => q("#board tr[data-row]").filter((r) => !r.hidden).map((r) => r.querySelector(".name").textContent);
  const press = (sort) => q("th").find((h) => h.dataset.sort === sort).querySelector("button").click();
  const choose = (name, value) => q(`input[name=${name}]`).find((i) => i.value === value)?.click();
  const type = (s, value) => { q(s)[0].value = value; q(s)[0].dispatchEvent(new Event("input", { bubbles: true })); };
  const sentence = () => text(".cards:not([hidden]) .sentence");
  const out = { first: shown(), sentence: sentence(), front: q("#front")[0].getAttribute("points") };
  out.dots = q("#plot > i").filter((i) => !i.hidden).length;
  out.columns = q("#board thead th").filter((h) => h.offsetParent).length;
  q("#more")[0].click();
  out.more = q("#board thead th").filter((h) => h.offsetParent).length;
  press("average_cost");
  out.cheapest = shown();
  out.sorted = q("th[aria-sort]").map((h) => [h.dataset.sort, h.getAttribute("aria-sort")]);
  press("average_cost");
  out.dearest = shown();
  q("#every")[0].click();
  out.all = shown().length;
  out.status = text("#status");
  choose("grading", "judge");
  out.judged = sentence();
  out.visible = getComputedStyle(q("td .of-judge")[0]).display + " " + getComputedStyle(q("td .of-strict")[0]).display;
  type("input[type=search]", "REACT+");
  out.found = shown();
  choose("kind", "simulated");
  choose("condition", "2");
  out.simulated = sentence();
  out.address = location.hash;
  q("#theme")[0].click(); q("#theme")[0].click();
  out.dark = getComputedStyle(document.body).backgroundColor;
  out.wide = document.documentElement.scrollWidth - innerWidth;
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify(out);
  document.body.append(pre);
}, 50));
</script>
</body>"""


def browse(tmp_path, page, width=1280, address=""):
    path = tmp_path / "index.html"
    path.write_text(page, encoding="utf-8")
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=3000",
        "--enable-logging=stderr", f"--window-size={width},1600", f"--user-data-dir={tmp_path / 'profile'}",
        path.as_uri() + address,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def as_seen(page):
    """The sentence and the frontier of a page, as they stand in its text."""
    document = Document(page)
    (shown,) = [cards for cards in document.all("div", **{"class": "cards"}) if "hidden" not in cards]
    (sentence,) = [e["text"] for e in document.all("p", **{"class": "sentence"}) if e["text"] in shown["text"]][:1]
    return sentence, document.all("polyline", id="front")[0]["points"]


@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome here to open the page in")
def test_a_browser_answers_sorts_and_filters_without_an_error(tmp_path):
    page = page_of(board())
    dom, console = browse(tmp_path, page.replace("</body>", PROBE))
    assert console == []
    seen = json.loads(Document(dom).all("pre", id="probe")[0]["text"])
    assert (seen["sentence"], seen["front"]) == as_seen(page)  # the script changes nothing at first
    assert seen["first"] == ["oracle", "random", "react+btp", "react"]
    assert seen["dots"] == 12
    assert (seen["columns"], seen["more"]) == (2 + COLUMNS, len(columns_of(board())) + 2)
    assert seen["cheapest"] == ["oracle", "random", "react+btp", "react"]
    assert seen["dearest"] == ["random", "oracle", "react", "react+btp"]
    assert seen["sorted"] == [["average_cost", "ascending"]]
    assert seen["all"] == 12
    assert seen["status"] == "12 rows, sorted by Cost, descending"
    assert seen["visible"] == "inline none"
    assert seen["found"] == ["react+btp"] * 3
    assert seen["judged"].startswith("20 ¢: random, success ") and as_seen(page)[0].startswith("20 ¢: random")
    assert seen["simulated"].startswith("40 ¢: react+btp (simulated model), success ")
    assert dict(pair.split("=") for pair in seen["address"][1:].split("&")) == {
        "kind": "simulated", "grading": "judge", "condition": "2", "rows": "all", "search": "REACT%2B", "columns": "all",
        "sort": "average_cost.down",
    }  # fmt: skip
    assert seen["dark"] == "rgb(19, 21, 24)"


@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome here to open the page in")
def test_an_address_opens_the_page_with_its_choices_and_nonsense_in_it_changes_nothing(tmp_path):
    page = page_of(board())
    address = "#kind=simulated&condition=2&search=btp&columns=all&sort=average_cost.down"
    dom, console = browse(tmp_path, page, address=address)
    assert console == []
    document = Document(dom)
    assert as_seen(dom)[0].startswith("40 ¢: react+btp (simulated model)")
    shown = [line for line in document.all("tr") if "data-row" in line and "hidden" not in line]
    assert len(shown) == 1 and "react+btp" in shown[0]["text"]
    nonsense = "#kind=<b>&by=constructor&condition=99&grading=1&sort=__proto__&rows=1&search=&theme=1"
    dom, console = browse(tmp_path, page, address=nonsense)
    assert console == []
    assert as_seen(dom) == as_seen(page)


def test_the_first_screen_says_what_the_terminal_says_for_every_track_and_suite():
    for names in (AGENTS, {"react": ("gpt-x", 6, 1)}, {"react": ("simulated", 13, 7)}, {"oracle": (None, 2, 0)}):
        for limits in ((10,), (10, 20), (10, 20, 40)):
            leaderboard = board(names, limits)
            first, screen = answer_first(leaderboard), io.StringIO()
            print_table(leaderboard, Console(file=screen, width=10_000))
            if first is None:  # a bound alone is no answer
                assert names.keys() == {"oracle"}
                continue
            assert as_seen(page_of(leaderboard))[0] == first.sentence
            assert first.sentence in screen.getvalue()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_the_frontier_rises_and_nobody_beats_it_at_the_same_or_a_lower_cost(points):
    placed = {number: (x / 9, y / 9) for number, (x, y) in enumerate(points)}
    front = [placed[number] for number in frontier(placed)]
    assert all(a[0] <= b[0] and a[1] < b[1] for a, b in itertools.pairwise(front))
    for x, y in placed.values():
        assert any(a <= x and b >= y for a, b in front)


def test_the_card_names_the_agent_at_the_end_of_the_frontier_under_the_same_budget():
    page = page_of(board())
    drawn = embedded(page)
    for cards in Document(page).all("div", **{"class": "cards"}):
        front = drawn["fronts"][f"{cards['data-condition']} {cards['data-kind']} {cards['data-grading']} price"]
        assert cards["data-best"] == str(front[-1])
        assert {drawn["dots"][row]["condition"] for row in front} == {int(cards["data-condition"])}


def test_a_figure_stays_on_a_line_with_its_unit_and_a_name_stays_text():
    html = unbroken("30 ¢: <b>, success 64 % (54–74), 7.0 ¢ a success, 3 sets.")
    assert html == (
        '<span class="whole">30 ¢</span>: &lt;b&gt;, success <span class="whole">64 %</span> '
        '<span class="whole">(54–74)</span>, <span class="whole">7.0 ¢</span> a success, 3 sets.'
    )


def test_real_models_are_shown_where_all_others_are_simulated():
    rows = [{**row, "track": "text"} for row in board({"react": ("simulated", 6, 1)})["rows"]]
    tracks = [{"name": "text", "scenario": {"currency": "credits"}}]
    page = page_of({**board(), "rows": rows, "tracks": tracks})
    (section,) = [e for e in Document(page).all("section") if e.get("aria-labelledby") == "section-real"]
    assert "Success % of small open models under 20 ¢, recorded on 100 tasks of the suite small." in section["text"]
    assert "Qwen2.5-Coder-1.5B-Instruct, fine-tuned on five strategies" in section["text"]
    for row in rows:
        row["model"] = "gpt-x"
    assert "section-real" not in page_of({**board(), "rows": rows, "tracks": tracks})


def test_the_chart_has_labelled_axes_a_caption_and_a_name_for_those_who_do_not_see_it():
    for names, kind in ((AGENTS, True), ({"react": ("gpt-x", 6, 1)}, False)):
        document = Document(page_of(board(names)))
        (plot,) = document.all("div", role="img")
        assert plot["aria-label"].startswith("Success % over the mean cost of an episode")
        texts = {e["text"] for e in document.elements if e["tag"] == "p"}
        assert {"Success %", "Mean cost of an episode, ¢"} <= texts
        assert [e["text"] for e in document.all("em")] == ["0", "20", "40", "60", "80", "100"]
        assert len(document.all("div", **{"class": "axis-x", "data-by": "price"})[0]["text"].split()) >= 4
        (caption,) = document.all("figcaption")
        assert ("Rings have a simulated language model." in caption["text"]) == kind


def test_the_table_for_spreadsheets_holds_every_figure_and_no_formula():
    leaderboard = board({**AGENTS, "=1+1": ("gpt", 6, 1)})
    lines = list(csv.DictReader(csv_of(leaderboard).splitlines()))
    assert len(lines) == len(leaderboard["rows"])
    assert {line["agent"] for line in lines} == {*AGENTS, "'=1+1"}
    row = next(r for r in leaderboard["rows"] if r["agent"] == "react" and r["budget"] == {"price": 20})
    line = next(line for line in lines if line["agent"] == "react" and line["budget_price"] == "20.0")
    assert float(line["pass_rate_under_budget"]) == row["pass_rate_under_budget"]
    assert [float(line[f"average_cost_{end}"]) for end in ("low", "high")] == row["ci95"]["average_cost"]


@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome here to open the page in")
def test_a_hostile_name_runs_nothing_and_a_narrow_window_never_scrolls_sideways(tmp_path):
    names = {
        "</script><script>document.title='owned'</script>": ("<img src=x onerror=alert(1)>", 6, 1),
        "x" * 120: (None, 3, 2),
    }
    dom, console = browse(tmp_path, page_of(board(names)).replace("</body>", PROBE), width=500)
    assert console == []
    document = Document(dom)
    assert document.all("title")[0]["text"].startswith("costgym leaderboard")
    assert not document.all("img")
    assert json.loads(document.all("pre", id="probe")[0]["text"])["wide"] <= 0
