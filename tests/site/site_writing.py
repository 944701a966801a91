"""Write a site in a test."""

from pathlib import Path

import jaxtyping

from regard.site import Site, write_site


def write_unchecked(folder: Path, model: str | None = None, **settings: object) -> Site:
    """Write a site while the checks of shapes and types are off: a length that is exported is no int."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        return write_site(folder, model, **settings)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
