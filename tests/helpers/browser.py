"""A headless Chromium to open pages in, and axe to judge how accessible they are."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
_WATCH = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
}).observe({ type: "longtask", buffered: true });
"""


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """A driven browser with a fresh profile, which notes every request and every message of its console. Skips without one."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium here: install costgym[dev]")
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    for name, path in programs.items():
        if path is None:
            pytest.skip(f"no {name} here: install the packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    for flag in (*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    from selenium.common.exceptions import WebDriverException

    try:
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(programs["chromedriver"]))
    except WebDriverException as error:
        pytest.skip(f"chromium does not start here: {str(error).splitlines()[0]}")
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})
        yield driver
    finally:
        driver.quit()


def window(driver: Any, width: int = 1280, height: int = 900, dark: bool = False) -> None:
    """A window of this size, that prefers a dark page or a light one."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def visit(driver: Any, page: Path, address: str = "", until: str = "document.readyState === 'complete'") -> None:
    """Open a fresh page and wait for a condition."""
    driver.get("about:blank")
    driver.get_log("browser")
    driver.get_log("performance")
    driver.get(page.as_uri() + address)
    wait(driver, until)


def wait(driver: Any, until: str, seconds: float = 30.0) -> None:
    """Wait until a condition of the page holds."""
    deadline = time.monotonic() + seconds
    while not driver.execute_script(f"return Boolean({until})"):
        if time.monotonic() > deadline:
            raise AssertionError(f"never came true: {until}; console: {complaints(driver)}")
        time.sleep(0.02)


def complaints(driver: Any) -> list[str]:
    """What the console says."""
    return [entry["message"] for entry in driver.get_log("browser")]


def foreign_requests(driver: Any) -> list[str]:
    """What was asked for that is no file on this disk."""
    events = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    urls = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return [url for url in urls if not url.startswith(("file:", "about:", "data:"))]


_DRAWN_TEXT = """
const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
const linear = (c) => (c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
const light = (rgb) => rgb.reduce((sum, c, i) => sum + linear(c / 255) * [.2126, .7152, .0722][i], 0);
const paper = light(parse(getComputedStyle(document.body).backgroundColor));
const over = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
const contrast = (colour) => over(light(parse(colour)), paper);
const all = (selector) => [...document.querySelectorAll(selector)];
const lowest = (selector, name) => Math.min(21, ...all(selector).map((e) => contrast(getComputedStyle(e)[name])));
return [lowest("svg text", "fill"), lowest("main svg .axis", "stroke"),
  all("main svg .grid").filter((line) => getComputedStyle(line).stroke === "none").length];
"""


@dataclass(frozen=True)
class DrawnText:
    """What stands out least from the paper in the pictures of a page, as contrasts from 1 to 21, and lines of grids without a
    colour. axe does not look at drawings."""

    text: float
    axis: float
    bare: int


def drawn_text(driver: Any) -> DrawnText:
    """Look at the pictures of the page that is open."""
    return DrawnText(*driver.execute_script(_DRAWN_TEXT))


_STOP = """
const at = document.activeElement;
return at === document.body ? null : [at.name || at.id || at.textContent.trim(), getComputedStyle(at).outlineStyle];
"""
_CONTROLS = """
return [...document.querySelectorAll("a[href], button:enabled, input, select, summary")]
  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && e.tabIndex >= 0)
  .map((e) => e.name || e.id || e.textContent.trim())
"""


def keyboard(driver: Any, most: int = 400) -> tuple[set[str], set[str]]:
    """Press Tab until the page that is open has ended: the controls that were never reached, and stops that nobody sees. The
    choices of one question share a stop, since the arrows move within it."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    stops: list[tuple[str, str]] = []
    while len(stops) < most:
        ActionChains(driver).send_keys(Keys.TAB).perform()
        stop = driver.execute_script(_STOP)
        if stop is None:
            break
        stops.append(tuple(stop))
    unreached = set(driver.execute_script(_CONTROLS)) - {name for name, _ in stops}
    return unreached, {name for name, outline in stops if outline != "solid"}


@dataclass(frozen=True)
class Accessibility:
    """What axe found: rules that passed, and rules that are violated with their impact and an example."""

    passed: int
    violated: tuple[tuple[str, str, str], ...]

    @property
    def score(self) -> float:
        """Share of the applicable rules that passed, in percent."""
        return 100 * self.passed / (self.passed + len(self.violated))

    @property
    def grave(self) -> list[tuple[str, str, str]]:
        return [rule for rule in self.violated if rule[1] in ("serious", "critical")]


def axe_source() -> str:
    module = pytest.importorskip("axe_core_python", reason="no axe here: install costgym[dev]")
    return (Path(module.__path__[0]) / "axe.min.js").read_text(encoding="utf-8")


def accessibility(driver: Any, source: Callable[[], str] = axe_source) -> Accessibility:
    """Judge the page that is open."""
    driver.execute_script(source())
    script = driver.execute_async_script(
        "const done = arguments[0]; axe.run(document).then((r) => done({"
        "passed: r.passes.length, violated: r.violations.map((v) => [v.id, v.impact, v.nodes[0].html.slice(0, 200)])}),"
        "(error) => done({error: String(error)}));"
    )
    assert "error" not in script, script
    return Accessibility(script["passed"], tuple((rule, impact, where) for rule, impact, where in script["violated"]))
