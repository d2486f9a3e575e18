"""A worker imports only what its operator named."""

import pytest
from pydantic import ValidationError

from benchmarks.contracts import Status
from worker.runner import Runner
from worker.settings import Settings, faults
from worker.startup import introduce
from worker.targets.target import refused

OWN = "mypkg.bench:build"


@pytest.mark.parametrize(
    "allowed", ["mypkg", "mypkg.bench", OWN, "other, mypkg.bench ", "other:build,mypkg"]
)
def test_what_the_operator_named_is_run(allowed: str) -> None:
    assert refused(OWN, Settings(models=allowed).allowed_models) == ""


@pytest.mark.parametrize(
    "allowed", ["", "other", "mypk", "mypkg.benc", "mypkg.bench.more", "mypkg.bench:other"]
)
def test_whatever_else_is_not_imported_and_says_so(allowed: str) -> None:
    sentence = refused(OWN, Settings(models=allowed).allowed_models)
    assert sentence.startswith("This worker allows ")
    assert OWN in sentence
    assert "THROUGHLINE_MODELS" in sentence


@pytest.mark.parametrize(
    "hostile", ["os:system", "shutil:rmtree", "antigravity:x", "cli.commands.up:run"]
)
def test_nothing_is_allowed_by_default(hostile: str) -> None:
    assert refused(hostile, Settings().allowed_models)


def test_workloads_of_the_catalog_need_no_leave() -> None:
    assert refused("resnet50", ()) == ""


@pytest.mark.parametrize("told", ["*", "my-pkg", "a,,b", "a:b:c", "../x", "a;b"])
def test_a_setting_that_names_no_module_is_refused(told: str) -> None:
    with pytest.raises(ValidationError):
        Settings(models=told)


def test_a_job_of_a_model_that_is_not_allowed_starts_no_child(
    settings, job, onlooker, contained, notes
):
    result = Runner(settings, contained).run(job(OWN, replicates=3), onlooker)
    assert (result.status, result.case.workload) == (Status.UNSUPPORTED, OWN)
    assert "its operator may add that to THROUGHLINE_MODELS" in result.reason
    assert list(notes.iterdir()) == []
    assert onlooker.told == []


def test_a_setting_that_is_wrong_says_in_words_what_it_must_be() -> None:
    with pytest.raises(ValidationError) as told:
        Settings(models="é x", device="tpu")
    assert faults(told.value) == [
        ("device", "must be auto, cpu, cuda or cuda:N"),
        ("models", "must be modules or functions, with commas, such as mypkg.bench,other:build"),
    ]


def test_a_worker_that_allows_models_says_so_that_jobs_may_require_it(settings, contained):
    allowing = settings.model_copy(update={"models": "mypkg.bench, other:build"})
    assert introduce(allowing, None, contained, "f").labels["models"] == "mypkg.bench,other:build"
    assert "models" not in introduce(settings, None, contained, "f").labels
