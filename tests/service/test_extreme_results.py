"""Whatever the contract takes can be shown: no accepted result makes a page fail for ever."""

import math
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from builders.measured import a_pass, a_replicate
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient

from benchmarks.contracts import (
    Bottleneck,
    Direction,
    Efficiency,
    Sample,
    Telemetry,
    Trace,
    Verdict,
    Window,
    Work,
)

pytestmark = pytest.mark.both_databases

GREATEST, LEAST = 1e100, 5e-324
TEXT = '\u202e</script><img src=x onerror=alert(1)>{{7*7}}\U0001f600\ufffe\ufeff"&'
VALUES = {
    "zero": (0.0, 0.0),
    "negative zero": (-0.0,),
    "greatest": (GREATEST, GREATEST, GREATEST),
    "both ends": (GREATEST, -GREATEST),
    "least": (LEAST, LEAST),
    "least and greatest": (LEAST, GREATEST),
    "subnormal": (2.2250738585072009e-308,) * 3,
    "negative": (-1.0, -2.0),
    "fifty": tuple(10.0**n for n in range(50, 100)),
    "one": (1.0,),
}


def sample(name: str, values: tuple[float, ...], **more: Any) -> Sample:
    return Sample(metric=name, unit="s", direction=Direction.LOWER, values=values, **more)


def extremes() -> Iterator[dict[str, Any]]:
    """What to give a result beside its case."""
    for values in VALUES.values():
        metrics = ("throughput", "throughput_synth", "input_stall", "first_step_time", "other")
        yield {"samples": tuple(sample(metric, values) for metric in metrics)}
    for width in (GREATEST, -GREATEST, LEAST, 0.0):
        yield {"samples": (sample("throughput", (1.0,), half_widths=(width,)),)}
    yield {"samples": (sample("throughput", (1.0,)).model_copy(update={"unit": TEXT}),)}
    yield {"log_tail": TEXT * 100, "reason": TEXT, "repro": TEXT, "item": TEXT}
    for step_s in (0.0, 1e9, LEAST):
        timed = a_pass(1.0).model_copy(
            update={
                **dict.fromkeys(("p50_s", "p99_s", "stall_s", "copy_s", "work_s"), step_s),
                "rate": GREATEST,
                "half_width": GREATEST,
                "window": Window(start_s=-GREATEST, end_s=GREATEST),
                "step_trace": Trace.of([min(step_s, 3e38)] * 3),
            }
        )
        yield {"replicates": (a_replicate(timed, timed),) * 3}
    for damage in traces():
        timed = a_pass(1.0).model_copy(update={"step_trace": damage})
        told = Telemetry(hz=GREATEST, t_s=damage, channels={"power_w": damage}, energy_j=-GREATEST)
        replicate = a_replicate(timed, timed).model_copy(update={"telemetry": {"full": told}})
        yield {"replicates": (replicate,)}
    numbers = {"noise": GREATEST, "input_stall": -GREATEST, "other": LEAST}
    verdict = Verdict(
        bottleneck=Bottleneck.UNKNOWN,
        confidence="low",
        sentence=TEXT,
        evidence=numbers,
        bounds=numbers,
    )
    yield {"verdict": verdict}


def traces() -> Iterator[Trace]:
    """Traces that hold no numbers, or numbers that JSON has no word for."""
    yield Trace(n=0, data="")
    yield Trace(n=5, data="AAAA")
    yield Trace(n=100_000, data=Trace.of([1.0]).data)
    yield Trace(n=1, data="=" * 8)
    yield Trace.of([math.nan, math.inf, -math.inf, 1.0])
    yield Trace.of([math.inf])
    yield Trace.of([3e38, -3e38, 1e-45])


@pytest.mark.both_databases(slow="sqlite")
def test_every_extreme_result_is_stored_and_every_page_shows_it(
    client: TestClient, hand: Hand
) -> None:
    for number, more in enumerate(extremes()):
        body = {"case": {"workload": "unet"}, "revision": f"r{number % 3}"}
        submission = client.post("/api/v1/submissions", json=body).json()
        lease = hand.must_claim()
        answer = hand.post(lease, result_of(lease, **more))
        assert answer.status_code == 201, answer.text
        for address in own_addresses(submission["id"], lease.job_id, answer.json()["id"]):
            check(client, address)
    for address in shared_addresses(client):
        check(client, address)


@pytest.mark.both_databases(slow="postgresql")
def test_an_extreme_replicate_is_answered_for_good(client: TestClient, hand: Hand) -> None:
    beyond = Efficiency(work=Work(flops_per_item=GREATEST, roof_s=GREATEST), device="x")
    for more in extremes():
        body = {"case": {"workload": "unet"}, "revision": "r0", "replicates": 2}
        submission = client.post("/api/v1/submissions", json=body).json()
        told = {**more, "samples": (sample("throughput", (1.0,)),), "efficiency": beyond}
        told["replicates"] = told.get("replicates", ())[:1]
        for _ in range(2):
            lease = hand.must_claim()
            answer = hand.post(lease, result_of(lease, **told))
            assert answer.status_code == 201, answer.text
            check(client, f"/api/v1/results/{answer.json()['id']}")
            check(client, f"/jobs/{lease.job_id}")
            check(client, f"/runs/{answer.json()['id']}")
        check(client, f"/api/v1/submissions/{submission['id']}/report?format=json")


def own_addresses(submission: str, job: str, result: str) -> Iterator[str]:
    api = "/api/v1"
    yield from (f"{api}/results/{result}", f"{api}/jobs/{job}", f"{api}/submissions/{submission}")
    yield from (f"{api}/submissions/{submission}/report?format={f}" for f in ("json", "markdown"))
    yield from (f"/jobs/{job}", f"/runs/{result}")


def shared_addresses(client: TestClient) -> Iterator[str]:
    api = "/api/v1"
    yield from (f"{api}/{noun}?limit=500" for noun in ("results", "series", "jobs"))
    yield from ("/", "/cases", "/cases?metric=other&sort=change", "/jobs")
    for one in client.get(f"{api}/series?limit=500").json()["items"]:
        yield from (f"{api}/series/{one['id']}", f"{api}/series/{one['id']}/points")
        yield from (f"/series/{one['id']}", f"/series/{one['id']}/points.csv")
    for pair in ("baseline=r0&contender=r1", "baseline=r2&contender=r0"):
        yield from (f"{api}/changes?{pair}", f"{api}/changes?{pair}&format=markdown")
        yield from (f"{api}/changes?{pair}&metric=other", f"/compare?{pair}")


def check(client: TestClient, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 200, f"{address}: {answer.status_code} {answer.text[:500]}"
    if answer.headers["content-type"] == "application/json":
        orjson.loads(answer.content)  # takes no NaN and no Infinity
