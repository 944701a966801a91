"""Compare the expected chrF of translations with their chrF, in five groups of lines by their score."""

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from regard.errors import InputError
from regard.translation.calibration import sentence_chrf
from regard.translation.translator import Translator

GROUPS = 5


def main(
    translator: Annotated[Path, typer.Argument(help="The folder of a calibrated translator.")],
    source: Annotated[Path, typer.Argument(help="The sentences, one a line.")],
    reference: Annotated[Path, typer.Argument(help="Their translations by people, line by line.")],
) -> None:
    """Print the rank correlation of score and chrF, and for each group of lines the expected chrF and the chrF.

    \b
    Example
      python benchmarks/calibration.py ko-en test.ko test.en
    """
    torch.set_num_threads(1)
    loaded = Translator.load(translator, "cpu")
    if loaded.calibration is None:
        raise InputError(f"{translator} has no calibration; finish its training with regard train.")
    sources, references = (path.read_text(encoding="utf-8").splitlines() for path in (source, reference))
    translations = loaded.translate(sources, truncate=True)
    chrf = np.array(sentence_chrf([translation.text for translation in translations], references))
    scores = np.array([translation.mean_log_probability for translation in translations])
    expected = np.array([loaded.calibration.expected_chrf(score) for score in scores.tolist()])
    print(f"{len(scores):,} lines; Spearman correlation of score and chrF {spearman(scores, chrf):.2f}")
    for group in np.array_split(np.argsort(scores, kind="stable"), min(GROUPS, len(scores))):
        low, high = scores[group[0]], scores[group[-1]]
        means = f"expected chrF {expected[group].mean():.1f}, chrF {chrf[group].mean():.1f}"
        print(f"scores from {low:.2f} to {high:.2f}: {means}")


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """Return Spearman's rank correlation; NaN if all numbers of a list are equal.

    >>> round(spearman(np.array([1, 2, 3, 4]), np.array([1, 4, 9, 16])), 6)
    1.0
    >>> round(spearman(np.array([1, 2, 2, 3]), np.array([3, 2, 2, 1])), 6)
    -1.0
    """
    with np.errstate(invalid="ignore"):
        return float(np.corrcoef(ranks(one), ranks(other))[0, 1])


def ranks(numbers: np.ndarray) -> np.ndarray:
    """Return the ranks, counted from 1; equal numbers have their mean rank."""
    _, group, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    return (np.cumsum(sizes) - (sizes - 1) / 2)[group]


if __name__ == "__main__":
    typer.run(main)
