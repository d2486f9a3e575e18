"""An account of a real launch: its parts, a slow exchange, a late rank."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import loaded, real_gangs
from builders.real_gangs import SLOW_S, asking, measured, spec

from benchmarks import lead
from benchmarks.catalog import catalog
from benchmarks.catalog.duration import expected_s
from benchmarks.contracts import Status
from benchmarks.diagnosis.straggler import straggler


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_gangs.surround(tmp_path, monkeypatch)


@pytest.fixture
def forked_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that need not load torch."""
    loaded.forked_ranks(monkeypatch)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
def test_an_account_has_its_parts_in_another_order_each_launch(parallel: str) -> None:
    asked = asking(spec("nanogpt", parallel=parallel), account=True)
    told = [lead.rounds(asked.model_copy(update={"seed": seed})) for seed in range(6)]
    expected = {"gang", "single", "beside"} | ({"apart"} if parallel == "ddp" else set())
    assert all({part.name for part in one} == expected for one in told)
    assert len({tuple(part.name for part in one) for one in told}) > 1
    for one in told:
        parts = {part.name: part for part in one}
        assert len(parts["single"].devices) == 1
        assert len(parts["beside"].devices) == len(parts["gang"].devices) == 2
        assert parts["beside"].case == parts["single"].case
        assert [part.name for part in one if not part.exchanges] == (
            ["apart"] if parallel == "ddp" else []
        )


@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
@pytest.mark.parametrize("account", [False, True])
def test_a_launch_is_expected_to_last_as_long_as_its_parts(parallel: str, account: bool) -> None:
    asked = asking(spec("nanogpt", parallel=parallel), account=account)
    parts = lead.rounds(asked)
    single = next(part.case for part in parts if part.name == lead.SINGLE)
    whole_s = expected_s(asked.case, asked.protocol)
    assert whole_s == pytest.approx(len(parts) * expected_s(single, asked.protocol))


def test_an_account_of_strong_scaling_is_refused() -> None:
    with pytest.raises(catalog.Refused, match="An account needs scaling=weak"):
        lead.rounds(asking(spec("nanogpt", scaling="strong"), account=True))


@pytest.mark.usefixtures("forked_ranks")
def test_an_account_finds_a_slow_exchange_and_a_late_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook that waits in every exchange of gradients is a delay in communication alone; rank 1
    is also late in each step, with exchange and without."""
    monkeypatch.setenv("FAULT", "exchanges slowly")
    result = measured(asking(spec(), account=True))
    assert result.status is Status.OK, result.reason
    assert lead.ONE_PROCESS_ONLY not in result.flags, "nothing else was asked for"
    account, trace = result.replicates[0].account, result.replicates[0].gang_trace
    assert account is not None
    assert account.wrapper_s is not None
    assert account.exchange_s > 0.8 * SLOW_S
    parts = (account.single_s, account.neighbours_s, account.wrapper_s, account.exchange_s)
    assert sum(parts) + account.residual_s == pytest.approx(account.gang_s)
    assert trace is not None
    assert not trace.absent
    assert trace.collectives == 1
    early, late = trace.ranks
    assert late.late_s > 0.8 * SLOW_S > early.late_s
    assert early.wait_s > late.wait_s
    for rank in trace.ranks:
        spent_s = rank.compute_s + rank.transfer_s + rank.wait_s + rank.idle_s
        assert spent_s == pytest.approx(rank.step_s)
    assert straggler([trace]) is None, "one launch names nobody"
    found = straggler([trace, trace])
    assert found is not None
    assert found.rank == 1
