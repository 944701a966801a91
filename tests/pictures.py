"""Reading the texts of a picture, for the tests of pictures."""

from matplotlib.figure import Figure


def texts(picture: Figure) -> list[str]:
    return [readable(text.get_text()) for axes in picture.axes for text in axes.texts]


def caption(picture: Figure) -> str:
    return " ".join(readable(text.get_text()) for text in picture.axes[-1].texts)


def assert_inside(picture: Figure) -> None:
    for text in (text for axes in picture.axes for text in axes.texts):
        box = text.get_window_extent()
        assert (box.x0 >= 0, box.y0 >= 0) == (True, True), text
        assert (box.x1 <= picture.bbox.width, box.y1 <= picture.bbox.height) == (True, True), text


def readable(text: str) -> str:
    """Return a text without the invisible marks around words that may be written from right to left."""
    return text.replace("\u2068", "").replace("\u2069", "")
