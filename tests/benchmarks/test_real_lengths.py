"""lengths=real and dynamic=: documents as they are, padding that changes nothing, refusals."""

import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import workload_module
from benchmarks.axes import dynamic, lengths
from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from benchmarks.data import UnusableData
from benchmarks.data.documents import Documents, open_documents
from benchmarks.data.tokens import TokenFile, Tokenizer, library_sources
from benchmarks.measure import batch_source, cycles, fastest_batch, flops, parity_check, session
from benchmarks.measure.cycles import Pad
from benchmarks.workload import Context, Recipe
from benchmarks.workloads import nanogpt

CPU = torch.device("cpu")
END = 50_256


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(CPU, tmp_path)


@pytest.fixture(scope="module")
def builtin(tmp_path_factory: pytest.TempPathFactory) -> TokenFile:
    return open_documents(Context(CPU, tmp_path_factory.mktemp("cache")), 1024, 600_000)


def users(folder: Path, *tokens: int) -> Context:
    """The user's own file of these tokens."""
    np.array(tokens, dtype=np.uint16).tofile(folder / "train.bin")
    return Context(CPU, folder, data_root=folder)


def case(workload: str = "nanogpt", **axes: str) -> Case:
    return Case(workload=workload, preset="tiny", axes=axes)


def built(context: Context, **axes: str) -> Recipe:
    return session.build(catalog.normalise(case(**axes), "cpu"), context)


# Documents


def test_a_document_is_what_stands_between_two_ends_and_is_cut_at_the_most(tmp_path: Path) -> None:
    context = users(tmp_path, 1, 2, 3, END, 7, END, END, 8, 9, 10, 11, 12, END, 5, 6)
    made = Documents(open_documents(context, 50_304, 0), most=3)
    pairs = [[part.tolist() for part in made[index]] for index in range(len(made))]
    assert pairs == [[[1, 2], [2, 3]], [[8, 9, 10], [9, 10, 11]]]
    assert made.lengths.tolist() == [2, 3]


@pytest.mark.parametrize("tokens", [(1, 2, 3, 4), (END, END), (END, 1, 2)])
def test_a_file_without_an_end_after_a_text_is_told(tmp_path: Path, tokens: tuple[int]) -> None:
    file = open_documents(users(tmp_path, *tokens), 50_304, 0)
    with pytest.raises(UnusableData, match=r"has no end-of-text token \(50256\) after a text in"):
        Documents(file, most=8)


def test_a_token_outside_of_the_vocabulary_is_told(tmp_path: Path) -> None:
    made = Documents(open_documents(users(tmp_path, 1, 300, 2, END), 256, 0), most=8)
    with pytest.raises(
        UnusableData, match="holds token 300 and the model's vocabulary ends at 255"
    ):
        made[0]


def test_the_built_in_documents_are_whole_top_level_parts_of_real_files(builtin: TokenFile) -> None:
    sources = library_sources(600_000)
    tokenizer = Tokenizer.learn(sources, 1024)
    made = Documents(builtin, most=100_000)
    texts = []
    for index in range(len(made)):
        x, y = made[index]
        texts.append(tokenizer.decode([*x.tolist(), int(y[-1])]))
    assert len(texts) > 150
    whole = b"\0".join(sources)
    assert all(text in whole for text in texts)
    assert not any(re.search(rb"\n\n\n\S", text) for text in texts)
    assert sum(text.startswith((b"def ", b"class ", b"@")) for text in texts) > len(texts) / 2
    assert len(set(made.lengths.tolist())) > 100


def test_documents_travel_without_their_file(builtin: TokenFile) -> None:
    made = Documents(builtin, most=64)
    packed = pickle.dumps(made)
    assert len(packed) < 10_000 < builtin.path.stat().st_size
    assert torch.equal(pickle.loads(packed)[4][0], made[4][0])


# Padding


def test_padding_changes_neither_the_loss_nor_a_gradient() -> None:
    torch.manual_seed(0)
    model = nanogpt.GPT(nanogpt.Config(layers=2, head=8, width=16, length=16, vocabulary=300))
    texts = [torch.randint(300, (n + 1,)) for n in (3, 9, 16)]
    samples = [(text[:-1], text[1:]) for text in texts]

    def gradients(*batches: tuple[float, tuple[torch.Tensor, ...]]) -> list[torch.Tensor]:
        model.zero_grad()
        sum(weight * nanogpt.loss(model, batch) for weight, batch in batches).backward()  # type: ignore[union-attr]
        return [parameter.grad.clone() for parameter in model.parameters()]  # type: ignore[union-attr]

    alone = [(len(x) / 28, (x[None], y[None])) for x, y in samples]
    padded = Pad(Documents.fill, to=(16,))(samples)
    assert [tuple(part.shape) for part in padded] == [(3, 16), (3, 16)]
    torch.testing.assert_close(gradients((1.0, padded)), gradients(*alone), rtol=1e-4, atol=1e-6)
    other = Pad((299, Documents.fill[1]), to=(16,))(samples)
    torch.testing.assert_close(nanogpt.loss(model, other), nanogpt.loss(model, padded))


@pytest.mark.parametrize("value", ["off", "on", "bucketed"])
def test_each_batch_is_as_long_as_the_axis_says(context: Context, value: str) -> None:
    recipe = built(context, lengths="real", dynamic=value, sequence="512")
    feed = batch_source.batches(recipe, 0)
    shapes = [next(feed)[0].shape for _ in range(2 * lengths.CYCLE)]
    own = cycles.lengths(recipe).max(axis=1).tolist() * 2
    assert {shape[0] for shape in shapes} == {recipe.batch}
    padded = [shape[1] for shape in shapes]
    assert len(set(own)) > cycles.BUCKETS, "the lengths must differ for this to show anything"
    match value:
        case "off":
            assert padded == [512] * len(own)
        case "on":
            assert padded == own
        case _:
            assert 1 < len(set(padded)) <= cycles.BUCKETS
            assert all(least <= to for least, to in zip(own, padded, strict=True))
            assert max(padded) == max(own)


def test_the_same_documents_come_whatever_the_padding(context: Context) -> None:
    def real(value: str) -> list[list[int]]:
        recipe = built(context, lengths="real", dynamic=value, sequence="256")
        feed = batch_source.batches(recipe, 3)
        return [y[y != -100].tolist() for _, y in (next(feed) for _ in range(8))]

    assert real("off") == real("on") == real("bucketed")


def test_parity_compares_every_shape_of_the_case_with_the_same_batches(context: Context) -> None:
    timed = built(context, lengths="real", dynamic="on", sequence="256")
    reference = replace(built(context, lengths="real", sequence="256"), dynamic=timed.dynamic)
    given = parity_check.inputs(reference, 0)
    feed = batch_source.batches(timed, 0)
    assert len(given) == lengths.CYCLE
    assert all(torch.equal(x, next(feed)[0]) for x, _ in given)
    assert cycles.several_shapes(given)


def test_a_case_is_held_against_the_same_lengths_in_one_shape() -> None:
    tuned = case(lengths="real", dynamic="on", precision="bf16")
    for of in (parity_check.reference_of, catalog.baseline):
        assert dict(of(tuned).axes) == {"lengths": "real"}


# Refusals


@pytest.mark.parametrize(
    ("wrong", "device", "sentence"),
    [
        (
            case("unet", lengths="real"),
            None,
            "lengths=real needs real_lengths=yes, and unet declares no real_lengths in its FACTS.",
        ),
        (case(dynamic="on"), None, "dynamic=on needs lengths=real, and this case has lengths=pre"),
        (case(dynamic="bucketed"), None, "dynamic=bucketed needs lengths=real, and this case has"),
        (
            case(lengths="real", accumulation="2"),
            None,
            "lengths=real needs accumulation=1, and this case has accumulation=2.",
        ),
        (
            case(lengths="real", dynamic="bucketed", graphs="on"),
            "cuda",
            "graphs=on needs dynamic=off, and this case has dynamic=bucketed.",
        ),
        (
            case(lengths="real", dynamic="on", attention="flex"),
            "cuda",
            "dynamic=on needs attention=auto or math or flash or efficient or cudnn, and this ",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    wrong: Case, device: str | None, sentence: str
) -> None:
    with pytest.raises(catalog.Refused) as refused:
        catalog.normalise(wrong, device)
    assert str(refused.value).startswith(sentence)


def test_one_shape_can_be_a_cuda_graph() -> None:
    catalog.normalise(case(lengths="real", graphs="on"), "cuda")


def test_a_search_for_the_fastest_batch_is_refused(context: Context, tmp_path: Path) -> None:
    recipe = replace(built(context, lengths="real"), fastest_batch=True)
    with pytest.raises(catalog.Refused, match="batch=fastest times batches of one length"):
        fastest_batch.settled(recipe, CPU, 0, tmp_path / "kept")


def test_a_search_for_the_largest_batch_tries_the_longest_samples(context: Context) -> None:
    recipe = built(context, lengths="real", dynamic="on")
    assert [tuple(part.shape) for part in batch_source.first(recipe, 3)] == [(3, 128)] * 2


def test_no_utilisation_is_told_of_samples_with_work_of_their_own(context: Context) -> None:
    on_gpu = replace(context, device=torch.device("cuda"))
    facts = {"hw.device": "cuda", "hw.gpu.name": "NVIDIA H200", "hw.gpu.sm_count": "132"}
    told = flops.efficiency(
        case(lengths="real"), 8, on_gpu, facts, lambda case, _: session.build(case, context)
    )
    assert told.work is None
    assert told.reason.startswith("The work of a step was not counted: samples of different len")


# A model of one's own

OWN = '''"""A line."""
import torch
from torch.utils.data import TensorDataset
from benchmarks.workload import Recipe
from dataclasses import replace
FACTS = {"real_lengths": "yes"}
class Varied(torch.utils.data.Dataset):
    lengths, most, fill = [2, 5, 9], 9, (0.0,)
    def __len__(self): return 3
    def __getitem__(self, index): return (torch.ones(self.lengths[index]),)
class Lacking(Varied):
    def __getattribute__(self, name):
        if name == "fill":
            raise AttributeError(name)
        return super().__getattribute__(name)
class Collating(Varied):
    def collate(self, samples): return samples
def build(size, context):
    return Recipe(torch.nn.Linear(1, 1), lambda m, b: m(b[0].mean().view(1)).sum(), torch.optim.SGD,
        lambda m: m.parameters(), TensorDataset(torch.ones(4, 9)), 2,
        real_lengths=HOW)
'''


def own_recipe(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str) -> Recipe:
    (folder / f"{name}.py").write_text(OWN.replace("HOW", how))
    monkeypatch.syspath_prepend(folder)
    entry = workload_module.load(f"{name}:build").entry
    own = Case(workload=f"{name}:build", preset="full", axes={"lengths": "real"})
    return session.build(catalog.normalise(own, "cpu", entry), Context(CPU, folder))


def test_a_model_of_ones_own_can_offer_samples_of_real_lengths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = "lambda recipe: replace(recipe, dataset=Varied())"
    recipe = own_recipe(tmp_path, monkeypatch, "varied_model", how)
    batch = next(batch_source.batches(recipe, 0))
    assert [tuple(part.shape) for part in batch] == [(2, 9)]
    assert cycles.items_per_step(recipe) == 85 / 8  # of sixteen: 5 times 2, 6 times 5, 5 times 9


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("None", "lengths=real needs a recipe with a function real_lengths, and it has none."),
        ("lambda recipe: recipe", "needs a data set with lengths, most and fill, .* TensorDataset"),
        ("lambda recipe: replace(recipe, dataset=Lacking())", "and Lacking lacks one."),
        ("lambda recipe: replace(recipe, dataset=Collating())", "has a collate of its own."),
        ("lambda recipe: 3", "real_lengths of the recipe returned int, and a Recipe is needed."),
    ],
)
def test_a_model_of_ones_own_is_told_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, sentence: str
) -> None:
    name = f"wrong_model_{abs(hash(how))}"
    with pytest.raises(catalog.Refused, match=sentence):
        own_recipe(tmp_path, monkeypatch, name, how)


def test_samples_that_are_not_as_long_as_their_data_set_says_are_told() -> None:
    wrong = [(torch.ones(3),), (torch.ones(4),)]
    with pytest.raises(catalog.Refused, match="A batch has 7 items, and by the `lengths` of its "):
        Pad((0.0,), items=frozenset({6, 8}))(wrong)


def test_the_defaults_change_nothing(context: Context) -> None:
    recipe = built(context)
    assert lengths.apply("preset", recipe) is recipe
    assert dynamic.apply("off", recipe) == recipe
    assert cycles.items_per_step(recipe) == 8 * 128
    assert batch_source.ring_size(recipe) == batch_source.RING
