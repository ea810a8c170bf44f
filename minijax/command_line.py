"""What the command lines share: minijax's own, and that of the demonstration.

Bad input is answered with one sentence on standard error and exit status 2.
"""

import argparse
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn


class OneSentenceParser(argparse.ArgumentParser):
    """An argument parser that answers a mistake with a sentence, not with a page."""

    def error(self, message: str) -> NoReturn:
        """Print `message` as one line and exit with status 2."""
        text = message.strip().partition("\n")[0].rstrip(".")
        self.exit(2, f"{self.prog}: {text}.\n")


def package_version(name: str) -> str:
    """The installed version of a distribution.

    >>> package_version("no-such-distribution")
    'not installed'
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
