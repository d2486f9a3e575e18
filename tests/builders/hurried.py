"""``python -m builders.hurried ARGUMENTS``: the command line, with a worker that asks the service
every second which commits it is to list.
"""

import runpy

from worker import checkouts

checkouts.LOOK_S, checkouts.TELL_AGAIN_S = 0.2, 1.0

if __name__ == "__main__":
    runpy.run_module("cli", run_name="__main__", alter_sys=True)
