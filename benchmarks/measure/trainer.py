"""A recipe made runnable: one call is one optimizer step."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.catalog.catalog import Refused
from benchmarks.measure import check_recipe, checkpointing, float8, wrappers
from benchmarks.measure.to_device import placement
from benchmarks.workload import Batch, Recipe


class Trainer:
    """Model, optimizer and scaler of one recipe on one device."""

    knows_loss = True
    """False of a rank whose steps return no loss."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        self.device = device
        self.inputs: Batch = ()
        """Buffers that batches are copied into; none in a step that takes them as they are."""
        self.placement = placement(recipe, device)
        model = recipe.model.to(memory_format=recipe.memory_format)  # type: ignore[call-overload]
        if recipe.float8:
            float8.use_float8(model)
        if recipe.checkpointing:
            checkpointing.recompute(model, recipe.blocks)
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        """Parameters of the whole model; tied ones count once."""
        self.model, self._wrapped = wrappers.shared(recipe, model, device)
        self.recipe = replace(recipe, model=self.model)
        self.optimizer = recipe.optimizer(recipe.parameters(self.model), **recipe.optimizer_options)
        self._optimizer_start = _on_the_host(self.optimizer.state_dict())
        self.scaler = torch.amp.GradScaler(device.type) if recipe.scale_gradients else None
        if self.scaler is not None:
            _begin_momentum(self.optimizer)
        self._parts = _parts(recipe)
        self._drop_gradients = not recipe.keep_gradients
        self.passed: Callable[[], None] = lambda: None
        """Called where all ranks of a gang pass: before a step, and before a backward pass."""
        self.exchanges = True
        """False: gradients of `parallel=ddp` stay in their rank."""
        self._forward = self._loss
        if recipe.compile_options is not None:
            self._forward = torch.compile(self._loss, **_compile_options(recipe))
        self.begin_with(self.model)

    def _loss(self, batch: Batch) -> Tensor:
        return wrappers.own(self.recipe.loss(self._wrapped, batch))

    @property
    def syncs(self) -> bool:
        """Return True if every step makes the host wait for the device."""
        return self.scaler is not None and not self.recipe.optimizer_options.get("fused")

    @property
    def scale(self) -> float:
        """Return the gradient scaler's factor on the loss; 1 without one. Waits for the device."""
        return float(self.scaler.get_scale()) if self.scaler is not None else 1.0

    def place(self, batch: Sequence[Tensor]) -> Batch:
        """Bring a batch onto the device in the recipe's layout; no copy if it is there."""
        return self.placement(batch)

    def step(self, batch: Batch) -> Tensor:
        """Forward, backward, update, gradients dropped; nothing of ours waits for the device.

        A gradient scaler beside an optimizer that is not fused does: it reads on the host whether
        the gradients were finite. `syncs` says so.

        Returns:
            The loss, a scalar tensor on the device.
        """
        self.passed()
        with wrappers.around_gradients(self.recipe.parallel):
            loss = self._gradients(batch) if self._parts == 1 else self._accumulated(batch)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad(set_to_none=self._drop_gradients)
        return loss.detach()

    def _gradients(self, batch: Batch) -> Tensor:
        if self.exchanges:
            loss = self._ahead(batch)
            self._backward(loss)
            return loss
        with wrappers.exchanging(self.recipe.parallel, self._wrapped, last=False):
            loss = self._ahead(batch)
            self._backward(loss)
            return loss

    def _accumulated(self, batch: Batch) -> Tensor:
        """Forward and backward, part by part; returns the mean of the parts' losses.

        Equal parts of a batch weigh the same, so the mean of their losses is the loss of the whole
        for every loss that is a mean over samples, as a `Recipe`'s is.
        """
        share = 1 / self._parts
        losses: list[Tensor] = []
        for part in zip(*(tensor.chunk(self._parts) for tensor in batch), strict=True):
            last = self.exchanges and len(losses) == self._parts - 1
            with wrappers.exchanging(self.recipe.parallel, self._wrapped, last=last):
                loss = self._ahead(part, share)
                self._backward(loss)
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def _ahead(self, batch: Batch, share: float = 1.0) -> Tensor:
        with self._autocast():
            loss = check_recipe.loss(self._forward(batch))
            return loss if share == 1.0 else loss * share

    def _backward(self, loss: Tensor) -> None:
        self.passed()
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        if self.recipe.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.recipe.autocast)

    def changed(self) -> None:
        """Forget captured code: the model computes something else from now on."""

    def begin_with(self, model: nn.Module) -> None:
        """Take the weights of ``model``, an equal module, as those that `rewind` goes back to."""
        # A module's state may hold other values than tensors; they stay unchanged.
        self._start = {
            name: wrappers.own(value.detach()).cpu().clone()
            for name, value in model.state_dict().items()
            if isinstance(value, Tensor)
        }

    def rewind(self, seed: int) -> None:
        """Go back to the initial weights, so that every pass times the same mathematics.

        Weights are written in place: compiled code and captured graphs keep their addresses.
        The gradient scale is kept, because its search for a fitting one is part of warm-up.
        """
        with torch.no_grad():
            now = self.model.state_dict()
            for name, value in self._start.items():
                wrappers.own(now[name]).copy_(value)
            self._rewind_optimizer()
        torch.manual_seed(seed)

    def _rewind_optimizer(self) -> None:
        self.optimizer.load_state_dict(self._optimizer_start)
        if self.scaler is not None:
            _begin_momentum(self.optimizer)


def _compile_options(recipe: Recipe) -> dict[str, Any]:
    """Arguments of `torch.compile`: where lengths differ, one graph for all or one for each."""
    options = dict(recipe.compile_options or {})
    return options if recipe.cycle == 1 else {**options, "dynamic": recipe.dynamic == "on"}


def _on_the_host(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _on_the_host(value) for name, value in state.items()}
    return state.detach().cpu().clone() if isinstance(state, Tensor) else copy.deepcopy(state)


def _begin_momentum(optimizer: torch.optim.Optimizer) -> None:
    """Give a fused SGD its momentum before its first step, whose gradient a scaler may discard.

    torch (2.11 to 2.13) allocates it in that step and leaves it uninitialised when the gradient is
    not finite. The next update adds that memory, and training ends in NaN. Zeros become the
    gradient itself in the first step, which is right as long as nothing is dampened.
    """
    for group in optimizer.param_groups if isinstance(optimizer, torch.optim.SGD) else ():
        if not group["fused"] or not group["momentum"]:
            continue
        if group["dampening"]:
            raise Refused(
                "torch's fused SGD with dampening begins with momentum that was never written when "
                "a gradient scaler discards its first step: choose another precision= or "
                "optimizer=foreach."
            )
        for weight in group["params"]:
            optimizer.state[weight]["momentum_buffer"] = torch.zeros_like(weight)


def _parts(recipe: Recipe) -> int:
    """Return the number of parts in which a batch goes through the model."""
    if recipe.batch % recipe.accumulation:
        raise Refused(
            f"accumulation={recipe.accumulation} needs a batch that {recipe.accumulation} divides, "
            f"and this case has {recipe.batch}."
        )
    return recipe.accumulation
