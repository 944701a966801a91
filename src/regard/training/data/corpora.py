"""The corpora of a training: their text files, their weights, and which of them are synthetic.

A synthetic corpus, such as the output of `regard back-translate`, has sources that a machine wrote. Its sources begin
with a tag, so that the model can tell them from sources written by people.

Source: Caswell, Chelba & Grangier 2019, "Tagged Back-Translation".
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.errors import InputError, counted
from regard.text.parallel import CleanCopy, Parallel, paths_in
from regard.training.settings.train_config import Data

TAG = "<synthetic>"

Texts = str | Path | Sequence[str | Path]
"""The text files of one language: paths, or one str of paths joined by commas."""

TextFiles = Mapping[str, Path]
"""The text files of a training by name: "source", "target", "source 2", … for each corpus, and "dev source" and
"dev target" if the user gives files of dev pairs."""


def text_files(source: Texts, target: Texts, data: Data) -> TextFiles:
    sources, targets = paths(source), paths(target)
    if len(sources) != len(targets):
        raise InputError(
            f"got {counted(len(sources), 'source file')} and {counted(len(targets), 'target file')}; give a target "
            "file for each source file, with commas between."
        )
    check_corpora(len(sources), data)
    texts = dict[str, Path]()
    for number, files in enumerate(zip(sources, targets, strict=True), start=1):
        texts |= dict(zip(names_of_corpus(number), files, strict=True))
    dev_source, dev_target = data.dev_source, data.dev_target
    if dev_source is None and dev_target is None:
        return texts
    if dev_source is None or dev_target is None:
        present, missing = ("source", "target") if dev_target is None else ("target", "source")
        raise InputError(f"there is a dev {present} and no dev {missing}; give both: --dev-source and --dev-target.")
    return {**texts, "dev source": Path(dev_source), "dev target": Path(dev_target)}


def paths(texts: Texts) -> list[Path]:
    """Return the paths in `texts`; a single str is split at its commas unless a file has this name."""
    if isinstance(texts, Sequence) and not isinstance(texts, str):
        return [Path(path) for path in texts]
    return paths_in(str(texts))


def names_of_corpus(number: int) -> tuple[str, str]:
    """Return the names of the source and the target file of corpus `number`, counted from 1.

    >>> names_of_corpus(1), names_of_corpus(2)
    (('source', 'target'), ('source 2', 'target 2'))
    """
    return ("source", "target") if number == 1 else (f"source {number}", f"target {number}")


def check_corpora(n_corpora: int, data: Data) -> None:
    given = counted(n_corpora, "corpus", "corpora")
    if data.weights is not None and len(data.weights) != n_corpora:
        raise InputError(f"data.weights = {list(data.weights)}: got {given}; give a weight for each.")
    synthetic = set(data.synthetic or ())
    if synthetic and max(synthetic) > n_corpora:
        raise InputError(
            f"data.synthetic = {sorted(synthetic)}: got {given}; give numbers of corpora, from 1 to {n_corpora}."
        )
    if len(synthetic) == n_corpora and data.dev_source is None:
        raise InputError(
            "data.synthetic names every corpus, and dev pairs are taken from the others; give pairs that people "
            "translated as a corpus, or as dev pairs with --dev-source and --dev-target."
        )


def clean_copies(texts: TextFiles, data: Data, folder: Path) -> list[CleanCopy]:
    """Return for each corpus a `CleanCopy`, whose method `write` will write the cleaned pairs to a file in `folder`."""
    copies = list[CleanCopy]()
    n_corpora = sum(name.startswith("source") for name in texts)
    for number in range(1, n_corpora + 1):
        source, target = names_of_corpus(number)
        tag = TAG if number in (data.synthetic or ()) else ""
        copies.append(CleanCopy(Parallel(texts[source], texts[target]), folder / f"clean-{number}.tsv", tag))
    return copies
