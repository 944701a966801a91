"""Reading a page in tests: its views, the rows of tables, and the numbers in them."""

from pathlib import Path

from playwright.sync_api import Locator, Page, expect


def view(page: Page, name: str) -> Locator:
    return page.locator(f"[data-view={name}]")


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("∞", "inf"))


def numbers(texts: list[str]) -> list[float]:
    return [number(text) for text in texts]


def cells(rows: Locator) -> list[list[str]]:
    """The texts of the cells of a table's rows, once it has rows."""
    expect(rows).not_to_have_count(0)
    found: list[list[str]] = rows.evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")
    return found


def table(page: Page, name: str) -> list[list[str]]:
    """The rows of a view's table of numbers, which is opened."""
    details = view(page, name).locator(".numbers")
    if details.get_attribute("open") is None:
        details.locator("summary").click()
    return cells(details.locator("tbody tr"))


def weights(page: Page, name: str = "sentence", column: int = 1) -> list[float]:
    """The weights in a column of a view's table of numbers; a masked key has weight 0."""
    return [0.0 if row[column] == "masked" else float(row[column]) for row in table(page, name)]


def columns(tables: Locator) -> dict[str, list[str]]:
    rows = cells(tables.locator("tbody tr"))
    names = [text.strip() for text in tables.locator("thead th").all_text_contents()]
    return {name: [row[place].replace("−", "-") for row in rows] for place, name in enumerate(names)}


def boxes(found: Locator) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of each element."""
    found.first.wait_for()
    script = "all => all.map(one => one.getBoundingClientRect()).map(at => [at.left, at.top, at.right, at.bottom])"
    return [tuple(sides) for sides in found.evaluate_all(script)]


def overlaps(places: list[tuple[float, ...]], across: float = 0, down: float = 0) -> list[tuple[int, int]]:
    """The pairs of places that overlap by more than some pixels."""

    def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
        width, height = (min(one[side + 2], other[side + 2]) - max(one[side], other[side]) for side in (0, 1))
        return width > across and height > down

    return [(i, j) for i in range(len(places)) for j in range(i) if overlap(places[i], places[j])]


def saved(page: Page, name: str, ending: str, folder: Path) -> Path:
    """Save a view as a picture, "svg" or "png"; return the file, which has the name that the page proposes."""
    menu = view(page, name).locator("details.save")
    menu.locator("summary").click()
    with page.expect_download() as download:
        menu.get_by_role("button", name=ending.upper()).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path
