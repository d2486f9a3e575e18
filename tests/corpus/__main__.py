"""``PYTHONPATH=.:tests python -m corpus``: lists every case as a line of JSON."""

import base64
import json

from corpus import catalogue

for family, listed in catalogue.families().items():
    for case in listed:
        line = {
            "family": family,
            "name": case.name,
            "request": f"{case.method} {case.target}",
            "headers": [[name.decode(), value.decode("latin-1")] for name, value in case.headers],
            "body": base64.b64encode(case.body).decode(),
            "expected": sorted(case.expected),
        }
        print(json.dumps(line))
