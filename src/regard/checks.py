"""Checks of the values in a configuration."""

from regard.errors import nearest


def check_config(config: object, kind: type) -> None:
    """Raise TypeError unless a configuration is an object of its class."""
    if not isinstance(config, kind):
        raise TypeError(
            f"config is of type {type(config).__name__}; it takes a {kind.__name__}, which holds the sizes: "
            f"{kind.__name__}(n_source_tokens=…, n_target_tokens=…)."
        )


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise ValueError unless a value is a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} is a count; it must be a whole number of at least {least}.")


def check_probability(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name}={value} must be a probability of at least 0 and below 1.")


def check_choice(name: str, value: str, choices: list[str]) -> None:
    """Raise ValueError unless a value is one of the choices."""
    if value not in choices:
        raise ValueError(
            f"{name}={value!r} is unknown; did you mean {nearest(str(value), choices, n=1)[0]!r}? "
            f"There are {', '.join(map(repr, choices))}."
        )
