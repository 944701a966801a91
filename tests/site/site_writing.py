"""Writing a site in a test."""

from pathlib import Path

import jaxtyping

from regard.site import Site, write_site


def write_unchecked(folder: Path, model: str | None = None, **settings: object) -> Site:
    """Write a site without the course.

    The checks of shapes and types are off, since lengths are symbols and not ints during an export.
    """
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        return write_site(folder, model, course=False, **settings)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
