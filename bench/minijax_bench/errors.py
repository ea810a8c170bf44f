"""What stops the benchmark: a mistake in what was asked, told in one sentence."""


class BadInput(Exception):
    """A request that cannot be carried out. Its text is one sentence; the exit is 2."""


class MissingPackage(BadInput):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, what: str):
        super().__init__(
            f"{what} needs the package {package}, which is not installed: "
            f"pip install {package}"
        )
