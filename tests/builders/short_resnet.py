"""ResNet-50 with few and narrow layers, for tests that are not about what its layers compute."""

from __future__ import annotations

import pytest
import torch

from benchmarks.workloads import resnet50

STAGES = ((16, 1, 1), (16, 2, 2), (32, 2, 2), (32, 1, 2))
"""Both kinds of bottleneck: their strides meet images of each side alike."""


class ShortResNet(resnet50.ResNet50):
    """With a head for its narrower last stage."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4 * STAGES[-1][0], resnet50.CLASSES)


def apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the workload build it during a test."""
    monkeypatch.setattr(resnet50, "STAGES", STAGES)
    monkeypatch.setattr(resnet50, "ResNet50", ShortResNet)
