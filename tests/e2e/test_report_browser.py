"""The report in a real browser: what it shows, what it does, and what it must not do."""

import csv
import io
import shutil
from pathlib import Path

import numpy as np
import pytest

from isopivot import ICPQR, DiffusionICPQR, report

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("plotly")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("needs chromium on the PATH", allow_module_level=True)

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<b>bold</b> %{x} &lt; <a href='https://example.org'>link</a>",
    "=1+2",
    '-3, "quoted"\nsecond line',
)
N = 300


def rows():
    X = np.random.default_rng(0).standard_normal((N, 6)) * 2.0 ** -np.arange(6)
    X[7] += 3.0
    return X


def names():
    return [*HOSTILE, *(f"row {i}" for i in range(len(HOSTILE), N))]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as engine:
        chromium = engine.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def model():
    return ICPQR("3%", threshold=0.1).fit(rows())


@pytest.fixture(scope="module")
def file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    labels = [HOSTILE[i % 2] for i in range(N)]
    report.write(model, rows(), path, names=names(), labels=labels, title=HOSTILE[0])
    return path


class Visit:
    """A page, and all that it did which a report must not do."""

    def __init__(self, browser, file, **options):
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}} | options)
        self.page = self.context.new_page()
        self.errors, self.requests, self.dialogs = [], [], []
        self.page.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dismiss)
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("#rates .main-svg")

    def _dismiss(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def text(self, selector):
        return self.page.locator(selector).inner_text()

    def column(self, number):
        return self.page.locator(f"#cells td:nth-child({number})").all_inner_texts()


@pytest.fixture(scope="module")
def opened(browser, file):
    shared = Visit(browser, file)
    yield shared
    shared.context.close()


@pytest.fixture
def visit(opened):
    """The page as it opens, without the seconds of opening it."""
    page = opened.page
    page.locator("#slider").press("End")
    page.locator("#search").fill("")
    page.locator("#show").select_option("all")
    return opened


def test_opens_without_errors_network_or_dialogs(visit, file):
    assert visit.errors == []
    assert visit.dialogs == []
    assert visit.requests == [file.as_uri()]


def test_names_stay_text(visit):
    page = visit.page
    assert page.title() == HOSTILE[0]
    assert visit.text("h1") == HOSTILE[0]
    assert page.locator("script").count() == 3
    assert page.locator("main img, main a").count() == 0
    page.locator("#search").fill("<b>BOLD</b>")
    assert visit.column(1) == [HOSTILE[2]]
    assert page.locator("#cells b").count() == 0
    assert HOSTILE[0] in page.locator("#legend").inner_text()


def test_hovering_a_hostile_row_shows_its_name(visit):
    page = visit.page
    for name in HOSTILE[:3]:
        page.wait_for_timeout(100)  # plotly ignores hovers in quick succession
        point = page.evaluate(
            """(name) => {
              const trace = document.getElementById('embedding').data;
              for (let t = 0; t < trace.length; t++)
                for (let p = 0; p < trace[t].text.length; p++)
                  if (trace[t].text[p].startsWith('<b>' + name)) return [t, p];
            }""",
            name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")[:40],
        )
        page.evaluate(
            "([t, p]) => Plotly.Fx.hover('embedding', [{curveNumber: t, pointNumber: p}])", point
        )
        shown = page.locator("#embedding .hoverlayer").text_content()
        assert name[:40] in shown
    assert page.locator("#embedding .hoverlayer a").count() == 0
    assert visit.dialogs == []


@pytest.mark.parametrize("keys", [["Home"], ["End"], ["Home", "ArrowRight", "ArrowRight"]])
def test_the_slider_shows_what_python_certifies(visit, model, keys):
    page = visit.page
    page.locator("#slider").focus()
    for key in keys:
        page.keyboard.press(key)
    s = int(visit.text("#size"))
    assert s == {"Home": 0, "End": model.n_components_}.get(keys[-1], 2)
    certified = model.truncate(n_components=s) if s else model.truncate(mu=float(model.path_[0, 0]))
    assert visit.text("#bound") == f"{certified.certificate_.distortion_bound:.6g}"
    assert visit.text("#mu") == f"{model.path_[s, 0]:.6g}"
    assert visit.text("#bound") in visit.text("#said")
    members = page.locator("#dictionary .name").all_text_contents()
    assert members == [names()[i] for i in model.dictionary_indices_[:s]]
    drawn = page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => "
        "done(document.getElementById('embedding').data.at(-1).x.length))))"
    )
    assert drawn == s


def test_the_picture_turns_three_dimensional_and_back(visit):
    page = visit.page
    page.locator("#deep").click()
    page.wait_for_selector("#embedding canvas")
    assert page.locator("#deep").get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.getElementById('embedding').data[0].type") == "scatter3d"
    assert "3 of" in visit.text("#view-note")
    page.locator("#flat").click()
    page.wait_for_selector("#embedding .scatterlayer")
    assert page.locator("#embedding canvas").count() == 0
    assert visit.errors == []


def test_distances_can_be_magnified(visit, model):
    page = visit.page
    page.locator("#change").click()
    change = page.evaluate("document.getElementById('distances').data.at(-1).y")
    assert min(change) >= -1e-3
    assert max(change) <= model.certificate_.distortion_bound * (1 + 1e-5)
    page.locator("#whole").click()
    assert max(page.evaluate("document.getElementById('distances').data.at(-1).y")) > max(change)


def test_groups_can_be_switched_off_by_keyboard(visit):
    button = visit.page.locator("#legend button").first
    button.focus()
    visit.page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    assert visit.page.evaluate("document.getElementById('embedding').data[0].visible") is False
    visit.page.keyboard.press("Enter")  # the keyboard stayed on the button
    assert button.get_attribute("aria-pressed") == "true"


def test_headers_sort_by_click_and_key(visit, model):
    page = visit.page
    rates = np.sort(model.distortion_rate(rows()))
    header = page.locator("#headers th").nth(1)
    assert header.get_attribute("aria-sort") == "descending"
    assert float(visit.column(2)[0]) == pytest.approx(rates[-1], rel=1e-5)
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert float(visit.column(2)[0]) == pytest.approx(rates[0], abs=1e-5)
    page.locator("#headers th button").nth(3).focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "none"
    s = model.n_components_
    assert visit.column(4)[: s + 1] == [*(f"no. {k}" for k in range(1, s + 1)), ""]
    header.locator("button").click()


def test_filters_and_pages(visit, model):
    page = visit.page
    page.locator("#show").select_option("odd")
    above = int((model.predict(rows()) < 0).sum())
    assert visit.text("#status") == f"1 to {min(25, above)} of {above} rows"
    assert set(visit.column(3)) == {"above threshold"}
    page.locator("#show").select_option("dictionary")
    assert len(visit.column(1)) == model.n_components_
    page.locator("#show").select_option("all")
    page.locator("#next").click()
    assert visit.text("#status") == f"26 to 50 of {N} rows"
    page.locator("#search").fill("row 299")
    assert visit.column(1) == ["row 299"]
    page.locator("#search").fill("nobody")
    assert visit.text("#status") == "no row fits"


def test_the_download_is_safe_in_a_spreadsheet(visit, model):
    page = visit.page
    with page.expect_download() as started:
        page.locator("#download").click()
    assert started.value.suggested_filename == "isopivot-rows.csv"
    content = Path(started.value.path()).read_bytes().decode("utf-8-sig")
    header, *lines = csv.reader(io.StringIO(content, newline=""))
    assert header[:5] == ["row", "rate", "verdict", "dictionary", "label"]
    assert len(lines) == N
    found = {line[0]: float(line[1]) for line in lines}
    assert {"'=1+2", "'" + HOSTILE[4], HOSTILE[0]} <= set(found)
    assert "=1+2" not in found
    negative = [line for line in lines if line[5].startswith("-")]
    assert negative  # numbers stay numbers
    rate = model.distortion_rate(rows()[7:8])[0]
    assert found["row 7"] == pytest.approx(rate, rel=1e-5)


@pytest.fixture(scope="module")
def phone(browser, file):
    small = Visit(browser, file, viewport={"width": 360, "height": 740}, color_scheme="dark")
    yield small
    small.context.close()


def test_every_control_is_reached_by_keyboard_and_shows_it(phone):
    page = phone.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    reached = set()
    for _ in range(45):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "[document.activeElement.id, getComputedStyle(document.activeElement).outlineStyle]"
        )
        reached.add(name)
        assert outline != "none" or not name, name
    controls = {"slider", "flat", "deep", "whole", "change", "search", "show", "download"}
    assert controls <= reached


def test_a_phone_needs_no_sideways_scrolling(phone):
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 360
    assert phone.page.locator("#slider").bounding_box()["width"] > 200


def test_dark_mode_colours_the_page_and_the_charts(phone):
    ink = "document.getElementById('rates').layout.font.color"
    background = "getComputedStyle(document.body).backgroundColor"
    assert phone.page.evaluate(f"[{background}, {ink}]") == ["rgb(17, 21, 28)", "#e7ebf2"]
    phone.page.emulate_media(color_scheme="light")
    phone.page.wait_for_timeout(300)  # the charts hear of it in an event
    assert phone.page.evaluate(f"[{background}, {ink}]") == ["rgb(245, 246, 249)", "#1c2330"]
    assert phone.errors == []


EDGES = {
    "one row": (ICPQR(), np.ones((1, 3))),
    "nothing kept": (ICPQR(1e6), rows()),
    "intervals": (DiffusionICPQR("20%"), rows()[:60]),
    "large numbers": (ICPQR("20%"), rows() * 1e150),
}


@pytest.mark.parametrize("edge", EDGES)
def test_small_and_flat_data_open_without_errors(browser, edge, tmp_path):
    estimator, X = EDGES[edge]
    report.write(estimator.fit(X), X, tmp_path / "r.html")
    visit = Visit(browser, tmp_path / "r.html")
    bound = estimator.certificate_.distortion_bound
    assert visit.text("#bound") == f"{bound:.6g}"
    assert len(visit.column(1)) == min(25, len(X))
    assert visit.errors == []
    visit.context.close()
