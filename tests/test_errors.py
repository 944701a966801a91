"""The error of a missing package says what to install."""

from refusals import refusal

from regard.errors import InputError, import_extra


def test_a_missing_package_is_named_with_what_installs_it():
    assert refusal(InputError, import_extra, "no_such_package.inner", "translation") == (
        "this needs the package no_such_package, which is not installed; install it with "
        "pip install 'regard[translation]'."
    )


def test_a_message_is_one_line_of_visible_characters_and_cut_in_the_middle():
    assert str(InputError("a\nb \x1b[31m \u202e\ud800")) == "a⏎b ‹1B›[31m ‹202E›‹D800›"
    line = str(InputError("begin " + "x" * 10_000 + " end."))
    assert line.startswith("begin xxx")
    assert line.endswith("xxx end.")
    assert " … " in line
    assert len(line) == 500 + 3 + 334
