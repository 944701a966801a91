"""COMET: a trained model reads source, translation and reference, and gives each line a score of about 0 to 1.

The package unbabel-comet loads and runs the model. regard does not install this package: users who want COMET install
it themselves.

Source: Rei et al. 2020, "COMET: A Neural Framework for MT Evaluation".
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import InputError, first_paragraph
from regard.evaluation.records import Comparison, MetricScore

N_SAMPLES, SEED = 1000, 12345
"""The number of random samples of the lines in a paired bootstrap, and the seed of the samples."""


def comet_score(
    model: str,
    source: Sequence[str],
    hypotheses: Sequence[str],
    reference: Sequence[str],
    against: Sequence[str] | None = None,
) -> MetricScore:
    """Score translations by COMET: return the mean score of all lines, times 100.

    Args:
        model: a checkpoint file, or the name of a model that unbabel-comet downloads.
        against: another system's translations of the same lines, to compare with; None = there is no other system.
    """
    loaded = load_model(model)
    scores = scores_of(loaded, source, hypotheses, reference)
    comparison = None if against is None else compare(scores, scores_of(loaded, source, against, reference))
    name = Path(model).name
    signature = f"COMET|model:{name}|version:{version('unbabel-comet')}"
    return MetricScore(name="COMET", value=float(scores.mean()), signature=signature, comparison=comparison)


def load_model(model: str) -> Any:
    try:
        comet = import_module("comet")
    except ModuleNotFoundError as error:
        raise InputError(
            "COMET needs the package unbabel-comet, which is not installed; install it with pip install unbabel-comet."
        ) from error
    try:
        return comet.load_from_checkpoint(model if Path(model).is_file() else comet.download_model(model))
    except Exception as error:  # the package raises exceptions of many classes
        raise InputError(f"COMET cannot load the model {model}: {first_paragraph(error)}.") from error


def scores_of(model: Any, source: Sequence[str], hypotheses: Sequence[str], reference: Sequence[str]) -> Any:
    lines = zip(source, hypotheses, reference, strict=True)
    samples = [{"src": src, "mt": hypothesis, "ref": ref} for src, hypothesis, ref in lines]
    return 100 * np.array(model.predict(samples, batch_size=8, gpus=0, progress_bar=False).scores)


def compare(scores: Any, other_scores: Any) -> Comparison:
    """Compare two systems by paired bootstrap resampling: the same random lines are drawn for both, many times.

    Source: Koehn 2004; p-value: the formula of sacreBLEU.
    """
    samples = np.random.default_rng(SEED).integers(len(scores), size=(N_SAMPLES, len(scores)))
    own_means, other_means = scores[samples].mean(axis=1), other_scores[samples].mean(axis=1)
    difference = abs(scores.mean() - other_scores.mean())
    differences = np.abs(own_means - other_means)
    # if the systems are equally good, the differences vary about 0: so their mean is subtracted
    p_value = (np.sum(differences - differences.mean() >= difference) + 1) / (N_SAMPLES + 1)
    # half of the 95 % confidence interval
    own_half, other_half = (1.96 * means.std(ddof=1) for means in (own_means, other_means))
    return Comparison(
        other=float(other_scores.mean()),
        interval=float(own_half),
        other_interval=float(other_half),
        p_value=float(p_value),
    )
