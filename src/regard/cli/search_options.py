"""The command line options of the search for a translation, which several subcommands share."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.translation.search.interface import Search

GreedySearch = Annotated[bool, typer.Option("--greedy", help="Greedy search, the fastest.")]
BeamSize = Annotated[
    int | None, typer.Option("--beam", "-b", help="Beam search with this many hypotheses.", show_default="5")
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        help="In sampling: below 1, probable pieces become more probable; above 1, less probable.",
        show_default="1",
    ),
]
TopK = Annotated[int | None, typer.Option("--top-k", help="Draw from the k most probable pieces.", show_default="all")]
TopP = Annotated[
    float | None,
    typer.Option("--top-p", help="Draw from the most probable pieces with this total probability.", show_default="all"),
]
Seed = Annotated[int | None, typer.Option("--seed", help="The seed of the drawn pieces.", show_default="0")]


def check_search_options(
    greedy: bool,
    sample: bool,
    beam_options: dict[str, float | int | None],
    sampling_options: dict[str, float | int | None],
) -> None:
    """Raise InputError if options choose two searches, or if `sampling_options` are given without sampling."""
    given = {"greedy": greedy, "sample": sample} | {name: value is not None for name, value in beam_options.items()}
    chosen = [option_name(name) for name, is_given in given.items() if is_given]
    if sample and "--n-best" in chosen:  # then --n-best is the number of samples
        chosen.remove("--n-best")
    if len(chosen) > 1 and (greedy or sample):
        raise InputError(
            f"got {' and '.join(chosen)}; choose one search: --greedy, --sample, or beam search with its options."
        )
    for name, value in sampling_options.items():
        if value is not None and not (sample or given.get("mbr")):
            raise InputError(f"{option_name(name)} {value} is an option of --sample; give --sample too.")


def search_from_options(
    greedy: bool, sample: bool, beam_options: dict[str, Any], sampling_options: dict[str, Any]
) -> "Search":
    """Return the search that the options choose; in a dict, None = this option is not given."""
    from regard.translation.search.beam import Beam
    from regard.translation.search.greedy import Greedy
    from regard.translation.search.minimum_risk import MinimumRisk
    from regard.translation.search.sampling import Sample

    if greedy:
        return Greedy()
    beam = {name: value for name, value in beam_options.items() if value is not None}
    sampling = {name: value for name, value in sampling_options.items() if value is not None}
    n_best = beam.pop("n_best", 1)
    n_samples = beam.pop("mbr", None)
    size = beam.pop("size", max(n_best, Beam().size))  # what remains in `beam` are the penalties
    try:
        if sample:
            return Sample(**sampling, n_best=n_best)
        if n_samples is None:
            return Beam(size, n_best=n_best, **beam)
        candidates = Beam(size, n_best=size, **beam)
        return MinimumRisk(n_samples, candidates=candidates, sample=Sample(**sampling), n_best=n_best)
    except ValueError as error:  # its message names attributes of the search, such as "temperature=0"
        # the number of candidates is the size of the beam
        message = str(error).replace("Greedy()", "--greedy").replace("candidates.n_best=", "--beam ")
        for name in (*beam_options, *sampling, "n_samples"):
            message = message.replace(f"{name}=", f"{option_name(name)} ")
        raise InputError(message) from error


def option_name(name: str) -> str:
    """Return the command line option that sets an attribute of a search object.

    >>> option_name("size"), option_name("n_samples"), option_name("n_best")
    ('--beam', '--mbr', '--n-best')
    """
    return {"size": "--beam", "n_samples": "--mbr"}.get(name, f"--{name.replace('_', '-')}")
