"""The report as a page in a real browser: drawn, in both colours, on a phone, on paper, and closed to the world."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import daskfs
from daskfs.observe.report import write_report

SCROLL = "[document.documentElement.scrollWidth, innerWidth]"


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("name", ["two", "news", "waves"])
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_a_report_of_every_algorithm(name, width, dark, runs, chromium, tmp_path):
    out = tmp_path / "report.html"
    assert write_report(runs / name, out) == str(out)
    with chromium.page(out, width, dark=dark) as page:
        assert page.evaluate("document.querySelectorAll('svg.chart').length") >= 2
        assert page.evaluate("[...document.querySelectorAll('svg')].every((one) => one.getBBox().width > 0)")
        wide, window = page.evaluate(SCROLL)
        assert wide <= window == width
        features = len(daskfs.load_selection(runs / name).features)
        assert page.evaluate("document.querySelectorAll('#features tbody tr').length") == features
        page.screenshot(tmp_path / "report.png")
        assert page.complaints == []
        assert page.requests == [out.as_uri()]


def test_the_switch_changes_page_and_plots(runs, chromium):
    """The accent of the plots is that of the page, before and after; dark paper is dark."""
    with chromium.page(Path(write_report(runs / "two"))) as page:
        assert brightness(page.evaluate("getComputedStyle(document.body).backgroundColor")) > 240
        light = page.evaluate(COLOUR)
        page.evaluate("document.getElementById('theme').click()")
        assert brightness(page.evaluate("getComputedStyle(document.body).backgroundColor")) < 40
        assert page.evaluate("document.getElementById('theme').textContent") == "Light"
        dark = page.evaluate(COLOUR)
        assert (light, dark) == ("rgb(11, 110, 127)", "rgb(79, 195, 214)")
        assert page.complaints == []
        page.look(print_=True)  # on paper it is light, whatever the screen is
        assert brightness(page.evaluate("getComputedStyle(document.body).backgroundColor")) > 240


@pytest.mark.parametrize("name", ["two", "news", "waves"])
def test_no_table_card_or_plot_is_cut_on_paper(name, runs, chromium):
    """What is no longer than a page is not to be broken, and the rest is in light colours."""
    whole = ".card, figure, .plain, .bars, .confusion, #features, .figures > div"
    style = f"[...document.querySelectorAll('{whole}')].map((one) => getComputedStyle(one).breakInside)"
    with chromium.page(Path(write_report(runs / name)), dark=True) as page:
        page.look(720, print_=True, dark=True)
        wide, window = page.evaluate(SCROLL)
        assert wide <= window
        breaks = page.evaluate(style)
        assert len(breaks) > 10
        assert set(breaks) == {"avoid"}
        assert page.evaluate(COLOUR) == "rgb(11, 110, 127)"
        assert page.printed().startswith(b"%PDF")


COLOUR = "getComputedStyle(document.querySelector('svg.chart .bar')).fill"
"""The colour of the bars that say how often features were chosen."""


def brightness(colour: str) -> float:
    return float(np.mean(channels(colour)))


def channels(colour: str) -> list[int]:
    return [int(channel) for channel in re.findall(r"\d+", colour)[:3]]


def luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.array(channels(colour)) / 255]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("dark", [False, True])
def test_contrast_and_names_for_everybody(dark, runs, chromium):
    computed = """(name) => { const probe = document.body.appendChild(document.createElement("i"));
      probe.style.color = `var(${name})`; return getComputedStyle(probe).color; }"""
    with chromium.page(Path(write_report(runs / "two")), dark=dark) as page:
        values = {
            name: page.evaluate(f"({computed})('{name}')")
            for name in ("--paper", "--raised", "--ink", "--quiet", "--accent")
        }
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, input, select, [role=img], [role=region]')].filter((one) => "
            "!(one.getAttribute('aria-label') || one.labels?.length || one.textContent.trim())).length"
        )
        assert unnamed == 0
        assert page.evaluate("[...document.querySelectorAll('th')].every((one) => one.scope)")
        levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert max(np.diff(levels)) <= 1
    for back in ("--paper", "--raised"):
        for front in ("--ink", "--quiet", "--accent"):
            pair = sorted([luminance(values[back]), luminance(values[front])])
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (front, back)


def test_nothing_but_its_own_scripts_runs(runs, chromium):
    """Were there a hole in the escaping, the page's policy would still be there."""
    with chromium.page(Path(write_report(runs / "two"))) as page:
        page.evaluate(
            "const own = document.createElement('script'); own.textContent = 'window.ran = 1';document.body.append(own)"
        )
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 2\">')")
        assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
        assert page.evaluate("window.ran === undefined")
        assert sum("Content Security Policy" in text for text in page.complaints) >= 3
