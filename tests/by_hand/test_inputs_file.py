"""Numbers from a TOML file: what each key does, and every refusal's whole text."""

import numpy as np
import pytest
from refusals import refusal

from regard import InputError
from regard.by_hand import examples
from regard.by_hand.inputs_file import KEYS, built_in_inputs, parse_inputs, read_inputs

DIRECT = "Q = [[1, 2], [3, 4]]\nK = [[1, 0], [0, 1]]\nV = [[1, 0], [0, 1]]\n"


@pytest.fixture
def refused(tmp_path):
    """Return a function: refused(text) is the error message for a TOML file with that text; FILE is its path."""

    def read(text):
        path = tmp_path / "snakes.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(InputError) as refusal:
            read_inputs(path)
        return str(refusal.value).replace(str(path), "FILE")

    return read


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "snakes.toml").write_text(DIRECT, encoding="utf-8-sig")
    found, expected = read_inputs(tmp_path / "snakes.toml"), parse_inputs(DIRECT, "snakes.toml", "snakes")
    assert repr(found) == repr(expected)


def test_every_key_is_read():
    numbers = parse_inputs(
        """
        title = "Two  snakes"
        source = "a zoo"
        tokens = ["a\\tsnake", "it"]
        memory_tokens = ["m", "n", "o"]
        x = [[1, 2], [3, 4]]
        memory = [[1], [2.5], [3]]
        W_q = [[1, 0], [0, 1]]
        W_k = [[1, 2]]
        W_v = [[1, 2, 3, 4]]
        b_q = [1, 2]
        b_k = [3, 4]
        b_v = [1, 2, 3, 4]
        W_o = [[1], [2], [3], [4]]
        n_heads = 2
        scale = 3
        mask = [[true, false, true], [true, true, true]]
        temperature = 0.5
        """,
        "file",
        "stem",
    )
    assert (numbers.title, numbers.source) == ("Two snakes", "a zoo")
    assert [token.text for token in numbers.queries] == ["a snake", "it"]
    assert [token.text for token in numbers.keys] == ["m", "n", "o"]
    assert {name: matrix.tolist() for name, matrix in numbers.matrices.items()} == {
        "x": [[1, 2], [3, 4]], "memory": [[1], [2.5], [3]], "W_q": [[1, 0], [0, 1]], "W_k": [[1, 2]],
        "W_v": [[1, 2, 3, 4]], "b_q": [[1, 2]], "b_k": [[3, 4]], "b_v": [[1, 2, 3, 4]], "W_o": [[1], [2], [3], [4]],
    }  # fmt: skip
    assert all(matrix.dtype == np.float64 for matrix in numbers.matrices.values())
    assert (numbers.n_heads, numbers.scale, numbers.temperature) == (2, 3.0, 0.5)
    assert numbers.mask.tolist() == [[True, False, True], [True, True, True]]


def test_what_is_left_out():
    numbers = parse_inputs(DIRECT, "file", "stem")
    assert (numbers.title, numbers.source, numbers.n_heads) == ("stem", "", 1)
    assert (numbers.scale, numbers.mask, numbers.temperature) == (None, None, 1.0)
    assert parse_inputs(DIRECT + 'mask = "causal"', "file", "stem").mask == "causal"


def test_the_docstring_names_every_key():
    from regard.by_hand import inputs_file

    named = {line.split("=")[0].strip() for line in inputs_file.__doc__.splitlines() if " = " in line}
    assert set(KEYS) - named == {"K", "V", "W_k", "W_v", "b_k", "b_v"}
    assert named <= set(KEYS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [[1]]\nW_q [[1]]",
         "FILE is not TOML: expected '=' after a key in a key/value pair (at line 2, column 5)."),
        (b"x = 1\ntitle = '\xff'", "FILE is not text in UTF-8 (line 2); save it as such."),
        ("W_Q = [[1]]", "FILE has the unknown key 'W_Q'; nearest: W_q."),
        ("heads = 2", "FILE has the unknown key 'heads'; nearest: n_heads."),
        ("x = 3", "x must be a matrix, a list of rows of the same length, like [[1, 0], [0, 1]]."),
        ("x = [1, 2]", "x must be a matrix, a list of rows of the same length, like [[1, 0], [0, 1]]."),
        ("x = []", "x must be a matrix, a list of rows of the same length, like [[1, 0], [0, 1]]."),
        ("x = [[], []]", "x, row 1 is empty; every row must have at least one number."),
        (
            "x = [[1, 2], [3]]",
            "x, row 2 has 1 number and row 1 has 2; all rows must have the same number of entries.",
        ),
        ("x = [[1, 2], [3, 'a']]", "x, row 2, column 2: 'a' is not a number."),
        ("x = [[1, true]]", "x, row 1, column 2: true is not a number."),
        ("x = [[1, [2]]]", "x, row 1, column 2: [2] is not a number."),
        ("x = [[1, 2], [nan, 3]]", "x, row 2, column 1: nan is not a finite number; every number must be."),
        ("x = [[-inf]]", "x, row 1, column 1: -inf is not a finite number; every number must be."),
        (f"x = [[1{'0' * 400}]]", "x, row 1, column 1: the number is too large for a float64, which ends at 1.8e308."),
        ("b_q = [[1]]", "b_q must be one row of numbers, like [1, 0, 2]."),
        ("b_q = [1, 'a']", "b_q, row 1, column 2: 'a' is not a number."),
        (DIRECT + "mask = 'cuasal'",
         "no mask 'cuasal'; there is causal (no attention to later tokens), or in a file rows of true and false."),
        (DIRECT + "mask = [[1, 0]]", "mask, row 1, column 1: 1 is not true or false (true = may attend)."),
        (DIRECT + "mask = true", "mask must be a matrix, a list of rows of the same length, like [[1, 0], [0, 1]]."),
        (
            DIRECT + "mask = [[true]]",
            "mask is 1 x 1, but there are 2 queries and 2 keys: it must be 2 x 2, one row for each query.",
        ),
        (DIRECT + "n_heads = 0", "n_heads = 0 must be a whole number from 1."),
        (DIRECT + "n_heads = 1.5", "n_heads = 1.5 must be a whole number from 1."),
        (DIRECT + "n_heads = true", "n_heads = true must be a whole number from 1."),
        (DIRECT + "scale = 'big'", "scale: 'big' is not a number."),
        (DIRECT + "temperature = inf", "temperature: inf is not a finite number; every number must be."),
        (
            DIRECT + "temperature = -1",
            "temperature=-1.0 divides the scores, so it must be 0 (all weight on the largest) or above.",
        ),
        (DIRECT + "tokens = 'a b'", 'tokens must be a list of words in quotes, like ["The", "snake"].'),
        (DIRECT + "tokens = ['a', '']", 'tokens must be a list of words in quotes, like ["The", "snake"].'),
        (DIRECT + "title = 3", "title = 3 must be a text in quotes."),
        (
            DIRECT + f"title = ['{'a' * 50}']",
            f"title = ['{'a' * 37}… must be a text in quotes.",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(refused, text, message):
    assert refused(text) == message


def test_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "snakes.toml").write_text("x = [[1]]")
    for path, message in (
        (
            tmp_path / "snake.toml",
            f"there is no file {tmp_path}/snake.toml; nearest: snakes.toml; name a TOML file of numbers, take a "
            "built-in example (--list names them), or give a text with --text.",
        ),
        (
            tmp_path / "multi-head",
            f"there is no file {tmp_path}/multi-head; the built-in example of that name is shown with --example "
            "multi-head.",
        ),
        (tmp_path, f"cannot read {tmp_path}: is a directory; name a TOML file."),
    ):
        assert refusal(InputError, read_inputs, path) == message


def test_every_example_file_is_listed_and_reads():
    from importlib.resources import files

    found = {path.name.removesuffix(".toml") for path in files(examples).iterdir() if path.name.endswith(".toml")}
    assert found == set(examples.NAMES)
    for name in examples.NAMES:
        numbers = built_in_inputs(name)
        assert numbers.source
        assert numbers.title == examples.titles()[name]
        assert len(numbers.title) <= 80


def test_an_example_that_is_not_there_is_refused():
    assert refusal(InputError, built_in_inputs, "multihead") == (
        "no example 'multihead'; nearest: multi-head. All of them: "
        "self-attention, causal, one-word, cross, multi-head, two-tokens-eight-heads."
    )


@pytest.mark.parametrize("text", ["x = " + "[" * 3_000, "x = [[" + "9" * 5_000 + "]]"])
def test_toml_beyond_what_can_be_read_is_refused_in_words(tmp_path, text):
    path = tmp_path / "deep.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"deep\.toml is not TOML: "):
        read_inputs(path)
