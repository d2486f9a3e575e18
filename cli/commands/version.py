"""`throughline version`."""


def version() -> None:
    """Print the installed version."""
    from importlib.metadata import version as installed

    print(installed("throughline"))
