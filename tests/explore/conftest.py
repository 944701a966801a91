"""Fixtures that start the explorer's server for tests."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from running_explorer import Running, running_servers

from regard.explore.server import application
from regard.explore.session import Session
from regard.tracing.model_loading import LoadedModel


@pytest.fixture(scope="session")
def serving() -> Iterator[Callable[..., Running]]:
    """Yield a function: serving(session, token="…") returns a running explorer, which is stopped after the tests."""
    with running_servers() as run:
        yield lambda session, token=None: run(lambda hosts: application(session, () if token else hosts, token))


@pytest.fixture(scope="session")
def explorer(serving: Callable[..., Running], minilm: LoadedModel) -> Iterator[Running]:
    """A running explorer of MiniLM, which reads its first text once for all tests."""
    session = Session("MiniLM")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(session, "first_page", cache(session.first_page))
        yield serving(session)
