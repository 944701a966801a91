"""What the tests of pictures read off them."""

from matplotlib.figure import Figure


def texts(picture: Figure) -> list[str]:
    """Everything that is written."""
    return [text.get_text() for axes in picture.axes for text in axes.texts]


def caption(picture: Figure) -> str:
    """What is written below."""
    return " ".join(text.get_text() for text in picture.axes[-1].texts)
