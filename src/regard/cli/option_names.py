"""Python arguments in error messages, such as truncate=True, replaced by command line options, such as --truncate."""

import re

OPTIONS = {
    r"\btruncate=True": "--truncate",
    r"\btarget=…": "--target",
    r"\bimages=…": "--image",
    r"\bvideo=…": "--video",
    r"\baudio=…": "--audio",
    r"\bnew_tokens=": "--new-tokens ",
    r"\btrace\.words\(('.*?'|\".*?\")\)": r"--span \1",
    r"\blayers=\[(\d+)[^]]*\]": r"--layer \1",
    r" or kind='\w+'": "",  # on the command line, the name of a head has its kind
}
"""Regular expressions for Python arguments, and the command line options that replace them."""


def with_option_names(message: str) -> str:
    """Replace Python's arguments in a message by command line options, and remove arguments that have no option.

    >>> with_option_names("shorten it, or read only its beginning with truncate=True.")
    'shorten it, or read only its beginning with --truncate.'
    >>> with_option_names("choose layers of one size, such as layers=[0, 1].")
    'choose layers of one size, such as --layer 0.'
    >>> with_option_names("say which, as in 'cross L0H0' or kind='cross'.")
    "say which, as in 'cross L0H0'."
    """
    for argument, option in OPTIONS.items():
        message = re.sub(argument, option, message)
    return message
