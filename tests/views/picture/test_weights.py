"""The picture of a pattern without tokens, which a notebook shows."""

from collections.abc import Callable
from io import BytesIO

import matplotlib.image
import numpy as np
import torch
from IPython.core.formatters import DisplayFormatter
from torch import Tensor

from regard import Causal, attend
from regard.views.in_notebook import show_patterns
from regard.views.picture.canvas import weight_colours
from regard.views.picture.pattern import SHADES
from regard.views.picture.weights import weights_figure


def test_every_weight_is_a_cell_of_its_colour(normal: Callable[..., Tensor]) -> None:
    query, key = normal(2, 3, 5, 4).mul(2), normal(2, 3, 5, 4)
    pattern = attend(query, key, key, mask=Causal()).pattern
    (image,) = (image for axes in weights_figure(pattern).axes for image in axes.get_images())
    shown = np.asarray(image.get_array())
    weights = torch.softmax((query @ key.mT / 2).masked_fill(torch.ones(5, 5).triu(1) > 0, -torch.inf), -1)
    masked = np.ma.masked_array(weights[0, 1].numpy(), np.triu(np.ones((5, 5), bool), 1))
    head = shown[:5, 6:11]  # the second of two panels side by side, one white cell between them
    np.testing.assert_allclose(head, weight_colours()(SHADES(masked))[..., :3], atol=1e-6)


def test_a_notebook_shows_a_pattern_as_a_picture_unless_it_is_large(normal: Callable[..., Tensor]) -> None:
    x = normal(1, 1, 4097, 2)
    few = x[:, :, :50]
    display = DisplayFormatter()
    show_patterns(display)
    small, large = attend(few, few, few), attend(x, x, x)
    for part in (small, small.pattern):
        shown = display.format(part)[0]["image/png"]
        assert min(matplotlib.image.imread(BytesIO(shown)).shape[:2]) > 200
    for part in (large, large.pattern):
        assert "image/png" not in display.format(part)[0]
