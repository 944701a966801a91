"""The error of a missing package says what to install."""

import pytest

from regard.errors import InputError, import_extra


def test_a_missing_package_is_named_with_what_installs_it():
    with pytest.raises(InputError) as refusal:
        import_extra("no_such_package.inner", "translation")
    assert str(refusal.value) == (
        "this needs the package no_such_package, which is not installed; install it with "
        "pip install 'regard[translation]'."
    )
