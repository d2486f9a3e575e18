"""The exit codes of the command, and the error that carries one."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes; docs/cli.md explains them to people."""

    OK = 0
    FAILED = 1
    """A case failed, or a comparison found a regression."""
    USAGE = 2
    """Wrong usage: an unknown name, a refused request."""
    AWAY = 3
    """The service does not answer, or cannot work."""
    TIMEOUT = 4
    """Not everything is there: a wait ran out of time, or results are missing."""
    GATE_USAGE = 64
    """Wrong usage of `gate`, whose 2 says that it could not decide (EX_USAGE of sysexits.h)."""
    INTERRUPTED = 130


EXIT_CODES = (
    "Exit codes: 0 all well; 1 a case failed or got slower; 2 wrong usage (of gate: 64); "
    "3 the service is away; 4 results are missing or a wait ran out of time; 130 interrupted."
)


class Stop(Exception):
    """Ends the command with one sentence for a person and an exit code."""

    def __init__(self, sentence: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code


class Away(Stop):
    """The service does not answer now; it may in a moment, as after a restart."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, Exit.AWAY)
