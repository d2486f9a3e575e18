"""``python -m worker``: one worker for one device."""

from __future__ import annotations

import argparse
import logging
import sys

from pydantic import ValidationError
from pydantic_settings import SettingsError

from benchmarks.terminal import log_to_stderr
from worker.loop import WRONG
from worker.settings import Settings, faults
from worker.startup import run


def main() -> int:
    """Read the command line over the environment, then work."""
    parser = argparse.ArgumentParser(prog="python -m worker", description=__doc__)
    parser.add_argument("--url", help="address of the service")
    parser.add_argument("--name", dest="worker_name", help="name of this worker")
    parser.add_argument("--device", help="cpu, cuda, cuda:N or auto")
    parser.add_argument("--gpus", help="GPUs to offer together, such as 0,1")
    parser.add_argument("--once", action="store_true", default=None, help="end when idle")
    options = {
        name: value for name, value in vars(parser.parse_args()).items() if value is not None
    }
    log_to_stderr("%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    try:
        settings = Settings(**options)
    except (ValidationError, SettingsError) as error:
        for field, why in faults(error):
            logging.error("The setting %s is wrong: %s.", field, why)
        return WRONG
    return run(settings)


if __name__ == "__main__":
    sys.exit(main())
