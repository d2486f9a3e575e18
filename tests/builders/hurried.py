"""``python -m builders.hurried ARGUMENTS``: the command line, with a worker that asks the service
every second which commits it is to list, and whose builds do not give way: all that keeps the
processors of a machine busy here are other tests.
"""

import runpy
from typing import Any

from worker import checkouts
from worker.child.containment import guarded
from worker.targets import commands


def _at_once(*arguments: Any, gives_way: bool) -> tuple[str, ...]:
    return guarded(*arguments)


checkouts.LOOK_S, checkouts.TELL_AGAIN_S = 0.2, 1.0
commands.guarded = _at_once

if __name__ == "__main__":
    runpy.run_module("cli", run_name="__main__", alter_sys=True)
