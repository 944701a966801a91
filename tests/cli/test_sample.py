"""`regard sample`: files that a training takes, and refusals in one line."""

from cli_runner import output, refused

OPTIONS = ("sample", "--source", "en", "--target", "ko", "--pairs", 20, "--dev", 3, "--test", 4)


def test_the_files_that_it_names_have_the_pairs(tmp_path):
    printed = output(*OPTIONS, "--seed", 7, "--out", tmp_path / "one")
    names = ["train.en", "train.ko", "dev.en", "dev.ko", "test.en", "test.ko"]
    assert printed.split() == [str(tmp_path / "one" / name) for name in names]
    counts = [len((tmp_path / "one" / name).read_text().splitlines()) for name in names]
    assert counts == [20, 20, 3, 3, 4, 4]
    output(*OPTIONS, "--seed", 7, "--out", tmp_path / "two")
    assert all((tmp_path / "one" / n).read_bytes() == (tmp_path / "two" / n).read_bytes() for n in names)


def test_more_pairs_than_there_are_numbers_are_refused(tmp_path):
    assert refused("sample", "-s", "en", "-t", "ko", "-o", tmp_path, "--pairs", 1000, "--below", 1000) == (
        "2,000 pairs for training, dev and test together were asked for, and there are 1,000 numbers below 1,000; "
        "ask for fewer."
    )


def test_existing_files_stay_unless_forced(tmp_path):
    output(*OPTIONS, "-o", tmp_path, "--seed", 1)
    first = (tmp_path / "train.en").read_text()
    assert refused(*OPTIONS, "-o", tmp_path, "--seed", 2) == (
        f"{tmp_path}/train.en is there already; name another folder with --out, or replace it with --force."
    )
    assert (tmp_path / "train.en").read_text() == first
    output(*OPTIONS, "-o", tmp_path, "--seed", 2, "--force")
    assert (tmp_path / "train.en").read_text() != first
