"""What the fields of a config must be."""

from regard.errors import nearest


def check_count(name: str, given: object, least: int = 1) -> None:
    """Refuse what is no whole number, or too small a one.

    >>> check_count("n_layers", 0)
    Traceback (most recent call last):
      ...
    ValueError: n_layers=0 is a count; it must be a whole number of at least 1.
    """
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise ValueError(f"{name}={given!r} is a count; it must be a whole number of at least {least}.")


def check_choice(name: str, given: str, choices: list[str]) -> None:
    """Refuse a name that is not among the choices.

    >>> check_choice("cell", "gruu", ["lstm", "gru"])
    Traceback (most recent call last):
      ...
    ValueError: cell='gruu' is unknown; did you mean 'gru'? There are 'lstm', 'gru'.
    """
    if given not in choices:
        raise ValueError(
            f"{name}={given!r} is unknown; did you mean {nearest(str(given), choices, n=1)[0]!r}? "
            f"There are {', '.join(map(repr, choices))}."
        )
