"""Fixtures that start the translation service for tests."""

from collections.abc import Callable, Iterator

import pytest
from running_explorer import Running, running_servers

from regard.serve.batching import Batching
from regard.serve.server import application
from regard.translation.search.beam import Beam
from regard.translation.translator import Translator


@pytest.fixture(scope="session")
def serving() -> Iterator[Callable[..., Running]]:
    """Yield a function: serving(translator, token="…") returns a running service, which is stopped after the tests."""
    with running_servers() as run:
        yield lambda translator, token=None: run(
            lambda hosts: application(Batching(translator, Beam(3)), () if token else hosts, token)
        )


@pytest.fixture(scope="session")
def service(serving: Callable[..., Running], translator: Translator) -> Running:
    return serving(translator)
