"""The documentation: each kind of attention has a page of the same sections, whose code runs and draws its picture."""

import re
import sys
import warnings
from pathlib import Path

import pytest
import torch
from mkdocs.commands.build import build
from mkdocs.config import load_config
from test_documents import ROOT, blocks, check_commands, check_sessions
from torch.testing import assert_close

from regard import Causal, Sigmoid, attend, use_backend

sys.path.append(str(ROOT / "docs" / "hooks"))  # MkDocs finds its hooks there in the same way

from backends import table, what_can
from drawing import DARK, pictures
from equation import typeset
from page import Text
from reference import reference

DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md"))
KINDS = sorted(str(path.relative_to(ROOT)) for path in DOCS.glob("attention/*/*.md"))
SECTIONS = ["Equation", "Source", "When to use it", "Cost", "Run it", "Its pattern", "Reference"]


def page(path: str) -> Text:
    return Text((ROOT / path).read_text())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the documentation, in which every warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # of MkDocs itself
        config = load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder))
        build(config)
    return folder


def test_every_public_name_of_attention_has_its_page():
    public = re.findall(r"^from \.attention\.\S+ import (\w+) as", (ROOT / "src/regard/__init__.pyi").read_text(), re.M)
    missing = sorted(set(public) - {name for path in PAGES for name in page(path).names})
    assert not missing, f"no page in docs/ has <!-- reference: … --> with {', '.join(missing)}"


@pytest.mark.parametrize("path", KINDS)
def test_the_page_of_a_kind_has_every_section(path):
    text = page(path)
    assert list(text.sections) == SECTIONS
    assert all(text.sections.values())
    assert text.sections["Equation"].startswith("$$\n")
    assert re.fullmatch(r"- \*\*Time\*\*: .*\n- \*\*Memory\*\*: .*<!-- computed by -->", text.sections["Cost"], re.S)
    assert [len(text.marks(kind)) for kind in ("computed by", "picture", "reference")] == [1, 1, 1]
    assert text.marks("picture")[0].endswith(".")
    assert text.sentence.endswith(".")


@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path, "pycon")])
def test_the_python_of_a_page_prints_what_it_shows(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the code of a page may write files
    check_sessions(path)


BLOCKS = [block for block in blocks("docs/command-line.md", "console") if block not in blocks("README.md", "console")]
"""The console blocks of docs/command-line.md that are not in the README."""


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0])
def test_commands_print_what_the_page_shows(block, tmp_path):
    check_commands(block, tmp_path)


def test_every_block_is_of_a_language_that_is_run_or_only_read():
    for path in PAGES:
        assert set(re.findall(r"^```(\w+)$", (ROOT / path).read_text(), re.M)) <= {"pycon", "console", "bash", "text"}


@pytest.mark.parametrize("path", KINDS)
def test_the_table_of_backends_says_what_runs(path):
    pattern = page(path).run()["pattern"]
    read = (pattern.query, pattern.key, pattern.value)
    parts = {"score": pattern.score, "mask": pattern.mask, "normalise": pattern.normalise}
    can = what_can(pattern)
    with torch.no_grad():
        assert can.chosen.split(":")[0] == attend(*read, **parts).backend
        for name, reason in can.reasons.items():
            with use_backend(name):
                if reason is not None:
                    with pytest.raises(ValueError, match=re.escape(f"does not support this call: {reason};")):
                        attend(*read, **parts)
                elif name != "flex":  # whose compiling takes seconds; tests/attention/test_flex.py runs it
                    assert_close(attend(*read, **parts).context, pattern.apply(pattern.value), atol=1e-5, rtol=1e-4)


def test_a_table_of_backends_by_hand():
    x = torch.zeros(1, 1, 3, 4)
    plain, weighed = attend(x, x, x).pattern, attend(x, x, x, normalise=Sigmoid()).pattern
    lines = table({"Group": {"[A](a.md)": plain, "[B](b.md)": weighed}}).splitlines()
    assert lines[2:-2] == [
        "| kind | fused | math | tiled | flex | reference | `attend` takes |",
        "|---|:-:|:-:|:-:|:-:|:-:|---|",
        "| **Group** | | | | | | |",
        "| [A](a.md) | ✓ | ✓ | ✓ | ✓ | ✓ | fused |",
        "| [B](b.md) | · | · | ✓ | · | · | tiled: the fused kernel normalises by softmax, not Sigmoid |",
    ]


def test_a_picture_has_a_circle_for_each_weight_and_grey_for_what_is_masked():
    x = torch.zeros(1, 2, 5, 4)
    drawn = pictures(attend(x, x, x, mask=Causal()).pattern)
    for svg in drawn.values():
        circles, hidden = (re.findall(rf'<g id="{name}">(.*?)</g>', svg, re.S) for name in ("weights", "masked"))
        assert [group.count("<path") for group in circles] == [15, 15]  # of five queries, in each of two heads
        assert [group.count("<path") for group in hidden] == [10, 10]
    assert not any(colour in drawn["dark"] for colour in DARK)


def test_an_equation_is_drawn_in_the_colour_of_the_text():
    html = typeset("Before\n\n$$\na < b\nc\n$$\n\nAfter")
    assert html.startswith('Before\n\n<div class="equation" role="math" aria-label="a &lt; b c"><div><svg ')
    assert html.endswith("</svg></div></div>\n\nAfter")
    assert html.count('<svg fill="currentColor"') == 2
    assert "\n" not in html.removeprefix("Before\n\n").removesuffix("\n\nAfter")  # so that Markdown leaves it alone


def test_a_reference_by_hand():
    assert reference("Stretch") == (
        "### `Stretch` { #reference-stretch }\n\n```python\nclass Stretch\n```\n\n"
        "The base class of RoPE scalings: a rule that lowers the frequencies of rotary positions.\n\n"
        "**Args**\n\n"
        "- `factor`: the greatest length of a text divided by the greatest length in training; at least 1.\n\n"
        "**Raises**\n\n- `ValueError`: factor is below 1, infinite or NaN."
    )
    assert "```python\nWindow(before: int, after: int, offset: int | None = None)\n```" in reference("Window")
    assert "\n```pycon\n>>> sinusoidal(2, 4)\n" in reference("sinusoidal")
    assert "    *,\n    score: Score = ScaledDot(),\n" in reference("attend")


@pytest.mark.slow
def test_the_site_has_every_page_with_its_pictures(site):
    for path in PAGES:
        assert (site / path.removeprefix("docs/")).with_suffix(".html").exists()
    table = (site / "backends.html").read_text()
    for path in KINDS:
        here = Path(path.removeprefix("docs/"))
        for scheme in ("light", "dark"):
            name = f"{here.stem}-{scheme}.svg"
            assert (site / here.with_name(name)).read_text().startswith("<?xml")
            assert f'src="{name}#only-{scheme}"' in (site / here.with_suffix(".html")).read_text()
        assert f'<a href="{here.with_suffix(".html")}">{page(path).title}</a>' in table


@pytest.mark.slow
def test_the_site_has_no_unreplaced_mark_or_formula(site):
    for path in site.rglob("*.html"):
        assert not re.search(r"<!-- (picture|computed by|reference|kinds|backends)|\$\$", path.read_text()), path


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site):
    asked = re.compile(r"""<(?:script|img|iframe|link|source)\b[^>]*?\s(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")
    imported = re.compile(r"""(?:url\(|@import\s)\s*["']?((?:https?:)?//[^"')]+)""")
    for path in site.rglob("*"):
        if path.suffix in (".html", ".css", ".svg"):
            text = path.read_text()
            assert not asked.findall(text) + imported.findall(text), path


@pytest.mark.slow
def test_no_generated_file_is_beside_the_pages(site):
    pictures = (path for path in DOCS.rglob("*") if path.is_file() and path.suffix in (".svg", ".png", ".html"))
    kept = {path.name for path in pictures if path.parent != DOCS / "explorer"}
    assert kept == {"alignment.png", "snake.png", "eye.svg"}


def test_every_screenshot_is_shown():
    shown = set(re.findall(r"\(explorer/([a-z-]+\.png)\)", (DOCS / "explorer.md").read_text()))
    assert shown == {path.name for path in (DOCS / "explorer").iterdir()}
