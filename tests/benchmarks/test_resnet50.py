import hashlib
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.data.photographs import Photographs
from benchmarks.workload import Context, Recipe
from benchmarks.workloads import resnet50

SHAPES = {
    "conv1.weight": (64, 3, 7, 7),
    "bn1.num_batches_tracked": (),
    "layer1.0.downsample.0.weight": (256, 64, 1, 1),
    "layer1.0.downsample.1.running_var": (256,),
    "layer1.2.conv3.weight": (256, 64, 1, 1),
    "layer2.0.conv1.weight": (128, 256, 1, 1),
    "layer2.0.conv2.weight": (128, 128, 3, 3),
    "layer2.3.bn2.running_mean": (128,),
    "layer3.5.conv2.weight": (256, 256, 3, 3),
    "layer4.0.downsample.0.weight": (2048, 1024, 1, 1),
    "layer4.2.bn3.bias": (2048,),
    "fc.weight": (1000, 2048),
    "fc.bias": (1000,),
}
# SHA-256 of the lines "NAME SHAPE" of torchvision 0.29.2's resnet50().state_dict(), in its order.
TORCHVISION = "d7e4f8bb0a5363446a59c81c3887ccf66900a11651a0ae2dec96d1bb1eb6ea81"


@pytest.fixture(scope="module")
def meta() -> resnet50.ResNet50:
    with torch.device("meta"):
        return resnet50.ResNet50()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    context = Context(torch.device("cpu"), tmp_path_factory.mktemp("cache"))
    return resnet50.build(resnet50.PRESETS["tiny"], context)


def test_resnet50_has_25557032_parameters(meta: resnet50.ResNet50) -> None:
    assert sum(weight.numel() for weight in meta.parameters()) == 25_557_032


def test_the_state_dict_has_torchvisions_names_and_shapes(meta: resnet50.ResNet50) -> None:
    state = {name: tuple(value.shape) for name, value in meta.state_dict().items()}
    assert len(state) == 320
    assert {name: state[name] for name in SHAPES} == SHAPES
    text = "\n".join(f"{name} {shape}" for name, shape in state.items())
    assert hashlib.sha256(text.encode()).hexdigest() == TORCHVISION


def test_v1_5_strides_in_the_3x3_convolution(meta: resnet50.ResNet50) -> None:
    block = meta.layer2[0]
    assert isinstance(block, resnet50.Bottleneck)
    assert block.conv1.stride == (1, 1)
    assert block.conv2.stride == (2, 2)


def test_the_planes_shrink_thirtytwofold(meta: resnet50.ResNet50) -> None:
    images = torch.empty(2, 3, 224, 224, device="meta")
    stem = meta.maxpool(meta.relu(meta.bn1(meta.conv1(images))))
    last = meta.layer4(meta.layer3(meta.layer2(meta.layer1(stem))))
    assert stem.shape == (2, 64, 56, 56)
    assert last.shape == (2, 2048, 7, 7)
    assert meta(images).shape == (2, 1000)


def test_a_training_step_costs_24_gflop_an_image(meta: resnet50.ResNet50) -> None:
    batch = (torch.empty(1, 3, 224, 224, device="meta"), torch.zeros(1, device="meta").long())
    with FlopCounterMode(display=False) as counter:
        resnet50.loss(meta, batch).backward()
    assert counter.get_total_flops() == pytest.approx(24.30e9, rel=0.001)


def test_convolutions_start_as_kaiming_says() -> None:
    torch.manual_seed(0)
    model = resnet50.ResNet50()
    weight = model.conv1.weight
    assert weight.std().item() == pytest.approx((2 / (64 * 7 * 7)) ** 0.5, rel=0.05)
    assert torch.equal(model.bn1.weight, torch.ones(64))


def test_the_tiny_preset_learns_a_fixed_batch(tiny: Recipe) -> None:
    optimizer = tiny.optimizer(tiny.parameters(tiny.model), **tiny.optimizer_options)
    files = (0, 30, 60, 90)  # four different photographs
    batch = torch.utils.data.default_collate([tiny.dataset[file] for file in files])
    losses = []
    for _ in range(6):
        loss = tiny.loss(tiny.model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(7, abs=1)  # ln 1000 = 6.9: it knows nothing yet
    assert losses[-1] < losses[0] - 1


def test_the_recipe_says_what_it_reads_and_trains(tiny: Recipe) -> None:
    assert tiny.model.training
    assert tiny.data_name == "builtin-photos-v1"
    assert tiny.cudnn_benchmark
    assert tiny.optimizer is torch.optim.SGD
    assert tiny.optimizer_options["momentum"] == 0.9
    assert tiny.optimizer_options["weight_decay"] == 1e-4


def test_the_full_preset_is_the_one_of_the_history(tmp_path: Path) -> None:
    size = resnet50.PRESETS["full"] | {"files": 12}
    recipe = resnet50.build(size, Context(torch.device("meta"), tmp_path))
    image, label = recipe.dataset[0]
    assert (recipe.batch, image.shape, label.shape) == (256, (3, 224, 224), ())
    assert recipe.optimizer_options["lr"] == 0.1
    assert (tmp_path / Photographs(12, 500, 375).folder).is_dir()


def test_the_loss_compiles_into_one_graph(tiny: Recipe) -> None:
    def step(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return tiny.loss(tiny.model, batch)

    batch = (torch.randn(2, 3, 64, 64), torch.tensor([1, 2]))
    compiled = torch.compile(step, fullgraph=True, backend="eager")
    assert compiled(batch).shape == ()
