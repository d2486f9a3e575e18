"""Jobs of versions go to workers that make them; numbers of other versions are not taken."""

from typing import Any

import pytest
from builders.gate_hand import GPU, GateHand, asked, measured
from builders.service_hand import FACTS, Hand, result_of
from fastapi.testclient import TestClient

from benchmarks.contracts import Lease, Result

ONE, TWO = "torch==2.12.0", "torch==2.13.0"
MAKES = {"builds.torch": "yes", "device": "cuda"}


@pytest.fixture
def gate(client: TestClient, hand: Hand) -> GateHand:
    return GateHand(client, hand)


def submit(client: TestClient, revision: str) -> Any:
    body = {"case": {"workload": "resnet50"}, "revision": revision, "protocol": {"replicates": 1}}
    return client.post("/api/v1/submissions", json=body)


@pytest.mark.both_databases
def test_a_job_of_versions_waits_for_a_worker_that_makes_them(client: TestClient) -> None:
    plain, maker = Hand(client, "plain"), Hand(client, "maker")
    plain.introduce([])
    maker.introduce([], **MAKES)
    assert submit(client, ONE).status_code == 201
    assert plain.claim() is None
    lease = maker.must_claim()
    assert lease.spec.revision == ONE
    assert lease.spec.requires == {"builds.torch": "yes"}


def test_a_result_of_another_version_is_refused(client: TestClient) -> None:
    maker = Hand(client, "maker")
    maker.introduce([], **MAKES)
    submit(client, ONE)
    lease = maker.must_claim()
    maker.start(lease)
    refused = maker.post(lease, result_of(lease, facts=FACTS | {"sw.torch": "2.13.0+cu130"}))
    assert refused.status_code == 422
    assert "The revision is torch==2.12.0, and the process had torch 2.13.0+cu130" in refused.text
    taken = maker.post(lease, result_of(lease, facts=FACTS | {"sw.torch": "2.12.0+cu130"}))
    assert taken.status_code == 201, taken.text


def test_a_name_that_only_looks_like_a_version_is_refused(client: TestClient) -> None:
    answer = submit(client, "torch>=2.12")
    assert answer.status_code == 422
    assert "or exact versions of numpy, torch, torchvision, triton" in answer.text


def of_its_torch(lease: Lease) -> Result:
    version = lease.spec.revision.removeprefix("torch==")
    return measured(lease, 100.0, facts=GPU | {"sw.torch": version})


@pytest.mark.parametrize("duet", [False, True])
def test_a_comparison_of_versions_is_measured_where_both_can_be_made(
    gate: GateHand, duet: bool
) -> None:
    gate.worker.introduce([])
    refused = gate.client.post("/api/v1/comparisons", json=asked(baseline=ONE, contender=TWO))
    assert refused.status_code == 422
    assert f"No worker has {ONE} or {TWO}: w1 runs what is installed" in refused.json()["detail"]
    same = gate.client.post("/api/v1/comparisons", json=asked(baseline=ONE, contender=ONE))
    assert same.status_code == 422, "what is installed may be another version"
    gate.worker = Hand(gate.client, "maker")
    gate.worker.introduce([], **MAKES)
    told = gate.start(baseline=ONE, contender=TWO, duet=duet)
    assert told["worker"] == "maker"
    gate.measure(of_its_torch, most=1)
    assert {gate.seen[0].spec.revision} <= {ONE, TWO}


def test_a_commit_and_a_version_need_one_worker_that_makes_both(gate: GateHand) -> None:
    gate.worker.introduce(["abc"])
    maker = Hand(gate.client, "maker")
    maker.introduce([], **MAKES)
    answer = gate.client.post("/api/v1/comparisons", json=asked(baseline="abc", contender=TWO))
    assert answer.status_code == 422
    assert f"No worker has both abc and {TWO}" in answer.json()["detail"]
    maker.introduce(["abc"], **MAKES)
    assert gate.start(baseline="abc", contender=TWO)["worker"] == "maker"
