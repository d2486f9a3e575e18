"""Decoding of image files, and the place where pixels become numbers for the model.

Which crop of which file is read is the same for each value.
"""

from dataclasses import replace

from benchmarks.catalog.catalog import Refused
from benchmarks.data.decoded import Decoded, Normalise
from benchmarks.data.encoded import DeviceDecoder, Encoded
from benchmarks.data.images import Files, Images
from benchmarks.workload import Recipe

ROLE = "input"
DEFAULT = "cpu"
VALUES = {
    "cpu": "by the loader, which also normalises: fp32 crosses the bus",
    "cpu-uint8": "by the loader; bytes cross the bus and are normalised on the device",
    "cache": "once, into a file of pixels; the loader crops, bytes cross the bus",
    "gpu": "on the device by torchvision; JPEG files cross the bus",
}
NEEDS = {
    "cpu-uint8": {"input": ("images",)},
    "cache": {"input": ("images",)},
    "gpu": {"input": ("images",), "device": ("cuda",)},
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Read images in that way."""
    if value == "cpu":
        return recipe
    images = recipe.dataset
    if not isinstance(images, Images):
        raise Refused(f"decode={value} needs a workload that reads an image folder of ours.")
    prepare = Normalise(images.view)
    match value:
        case "cache":
            decoded = Decoded(images.folder, images.view)
            dataset = images.raw_from(decoded.folder, decoded)
        case "gpu":
            decoder = DeviceDecoder(images.view.size)
            return replace(recipe, dataset=Encoded(images), receive=decoder, prepare=prepare)
        case _:
            dataset = images.raw_from(images.folder, Files(images.folder))
    return replace(recipe, dataset=dataset, prepare=prepare)
