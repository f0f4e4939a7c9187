"""Networks with one hidden layer of logistic units, trained on squared errors as Matlab did in 1998.

The weights of both layers form one vector `theta`; the last column of a layer is its bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from calibrant.arrays import Floats
from calibrant.checks import check_one_of, check_whole
from calibrant.numerics.simplex import normalise
from calibrant.posteriors.objects import Objects, apply_in_blocks
from calibrant.showing import shown

__all__ = ["TRAININGS", "Layers", "Net", "SquaredError", "fit_network", "start_weights"]

_HIGH, _LOW = 0.9, 0.1  # the targets for an object's own class and for the others
_TINY_GRADIENT = 1e-6  # training ends when the norm of the gradient is below this
_ACTIVE = 4.0  # a logistic unit is considered active for inputs between -4 and 4
_JACOBIAN_ROWS = 4096  # rows of the Jacobian computed at a time


@shown
@dataclass(frozen=True, slots=True)
class Layers:
    """The numbers of inputs, hidden units and outputs."""

    inputs: int
    hidden: int
    outputs: int

    def split(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the weights of the hidden and of the output layer."""
        cut = self.hidden * (self.inputs + 1)
        return theta[:cut].reshape(self.hidden, -1), theta[cut:].reshape(self.outputs, -1)

    def forward(self, theta: Floats, x: Floats) -> tuple[Floats, Floats]:
        """Return the outputs of the hidden units and of the net."""
        first, second = self.split(theta)
        hidden = expit(x @ first[:, :-1].T + first[:, -1])
        return hidden, expit(hidden @ second[:, :-1].T + second[:, -1])


@shown
@dataclass(frozen=True, slots=True)
class Net:
    """A trained network with the range of its inputs; for two classes its one output is P(second class | x)."""

    low: Floats
    span: Floats
    layers: Layers
    theta: Floats

    def posterior(self, x: Floats) -> Floats:
        """Return P(class | x) of a block of objects."""
        _, output = self.layers.forward(self.theta, (x - self.low) / self.span)
        return np.column_stack([1.0 - output, output]) if self.layers.outputs == 1 else normalise(output)

    def __call__(self, x: Floats) -> Floats:
        """Return P(class | x)."""
        return apply_in_blocks(self.posterior, x, x.shape[1])


@shown
@dataclass(frozen=True, slots=True)
class SquaredError:
    """The objective: the weighted mean squared error of the outputs."""

    layers: Layers
    x: Floats
    target: Floats
    weight: Floats

    def error(self, theta: Floats) -> float:
        """Return the mean squared error."""
        _, output = self.layers.forward(theta, self.x)
        return float(self.weight @ ((output - self.target) ** 2).mean(axis=1) / self.weight.sum())

    def gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return the mean squared error and its gradient."""
        hidden, output = self.layers.forward(theta, self.x)
        residual = output - self.target
        share = (self.weight / self.weight.sum() / output.shape[1])[:, None]
        second = self.layers.split(theta)[1]
        out = 2.0 * share * residual * output * (1.0 - output)
        back = (out @ second[:, :-1]) * hidden * (1.0 - hidden)
        parts = (back.T @ self.x, back.sum(axis=0), out.T @ hidden, out.sum(axis=0))
        gradient = [np.column_stack([parts[0], parts[1]]).ravel(), np.column_stack([parts[2], parts[3]]).ravel()]
        return float((share * residual**2).sum()), np.concatenate(gradient)

    def normal_equations(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return J'WJ and J'Wr, where J are the derivatives of the outputs by theta and r the residuals."""
        square, product = np.zeros((len(theta), len(theta))), np.zeros(len(theta))
        for start in range(0, len(self.x), _JACOBIAN_ROWS):
            rows = slice(start, start + _JACOBIAN_ROWS)
            jacobian, residual = self.jacobian(theta, rows)
            weighted = jacobian * np.repeat(self.weight[rows], self.layers.outputs)[:, None]
            square += weighted.T @ jacobian
            product += weighted.T @ residual
        return square, product

    def jacobian(self, theta: Floats, rows: slice) -> tuple[Floats, Floats]:
        """Return the derivatives of the outputs of some rows by theta, and their residuals."""
        x = self.x[rows]
        hidden, output = self.layers.forward(theta, x)
        second = self.layers.split(theta)[1]
        out = output * (1.0 - output)
        back = out[:, :, None] * second[:, :-1] * (hidden * (1.0 - hidden))[:, None, :]
        with_bias = np.column_stack([x, np.ones(len(x))])
        first = back[:, :, :, None] * with_bias[:, None, None, :]
        own = np.column_stack([hidden, np.ones(len(x))])
        last = out[:, :, None, None] * np.eye(output.shape[1])[:, :, None] * own[:, None, None, :]
        size = output.size
        residual = (output - self.target[rows]).ravel()
        return np.hstack([first.reshape(size, -1), last.reshape(size, -1)]), residual


def start_weights(layers: Layers, rng: np.random.Generator) -> Floats:
    """Draw weights that spread the active regions of the hidden units over the inputs (Nguyen & Widrow 1990)."""
    first = _spread_layer(layers.inputs, layers.hidden, rng)
    second = _spread_layer(layers.hidden, layers.outputs, rng)
    return np.concatenate([first.ravel(), second.ravel()])


def _spread_layer(inputs: int, units: int, rng: np.random.Generator) -> Floats:
    """Return the weights of a layer for inputs in [0, 1]."""
    size = 0.7 * units ** (1.0 / inputs)
    direction = rng.uniform(-1.0, 1.0, (units, inputs))
    weights = size * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    bias = size * np.linspace(-1.0, 1.0, units) * np.sign(weights[:, 0]) if units > 1 else np.zeros(1)
    # The formula is for inputs in [-1, 1]; these are in [0, 1].
    return _ACTIVE * np.column_stack([2.0 * weights, bias - weights.sum(axis=1)])


def _gradient_descent(objective: SquaredError, theta: Floats, *, epochs: int | None = None, **_: object) -> Floats:
    """Descend with momentum 0.95 and a rate that grows by 5 % after each improvement (Matlab's traingdx).

    Where the error would grow by more than 4 %, the step is not taken and the rate is multiplied by 0.7. Training ends
    when half of the epochs have passed since the best error, when the gradient is tiny, or after 10,000 epochs.
    """
    rate, step = 0.01, np.zeros_like(theta)
    error, slope = objective.gradient(theta)
    best, best_error, best_epoch = theta, error, 1
    for epoch in range(1, (10_000 if epochs is None else epochs) + 1):
        if epoch > 2 * best_epoch or np.linalg.norm(slope) < _TINY_GRADIENT:
            break
        step = 0.95 * step - 0.05 * rate * slope
        new_error, new_slope = objective.gradient(theta + step)
        if new_error > 1.04 * error:
            rate *= 0.7
            step = np.zeros_like(step)
            continue
        rate *= 1.05 if new_error < error else 1.0
        theta, error, slope = theta + step, new_error, new_slope
        if error < best_error:
            best, best_error, best_epoch = theta, error, epoch
    return best


def _levenberg_marquardt(
    objective: SquaredError, theta: Floats, *, epochs: int | None = None, lm_fail: str | None = None
) -> Floats:
    """Take steps with (J'J + mu I) step = -J'r (Matlab's trainlm).

    mu starts at 0.001, is divided by 10 after a step that lowers the error, and multiplied by 10 otherwise. Training
    ends when the gradient is tiny, when mu exceeds 1e10, or after 1,000 epochs.
    """
    mu, error = 1e-3, objective.error(theta)
    for epoch in range(1_000 if epochs is None else epochs):
        square, product = objective.normal_equations(theta)
        if np.linalg.norm(product) < _TINY_GRADIENT:
            break
        while mu <= 1e10:
            try:
                new = np.asarray(theta - np.linalg.solve(square + mu * np.eye(len(theta)), product))
            except np.linalg.LinAlgError:  # mu is too small; staying at theta does not lower the error, so mu grows
                new = theta
            new_error = objective.error(new)
            if new_error < error:
                break
            if epoch == 0 and lm_fail == "matlab97":
                return theta
            mu *= 10.0
        else:
            break
        theta, error, mu = new, new_error, max(mu * 0.1, 1e-20)
    return theta


TRAININGS: dict[str, Callable[..., Floats]] = {
    "gradient_descent": _gradient_descent,
    "levenberg_marquardt": _levenberg_marquardt,
}


def fit_network(
    data: Objects,
    *,
    training: str = "levenberg_marquardt",
    hidden: int = 3,
    epochs: int | None = None,
    lm_fail: str | None = None,
    rng: np.random.Generator,
) -> Net:
    """Train a net on targets 0.9 for an object's own class and 0.1 for the others (Duin & Tax 1998: BPXNC and LMNC).

    Inputs are scaled to [0, 1]. Two classes have one output; more have one output per class, divided by their sum.

    Parameters
    ----------
    training : a name of `TRAININGS`.
    epochs : the largest number of steps; by default 10,000 for gradient descent and 1,000 for Levenberg-Marquardt.
    lm_fail : "matlab97" leaves the net untrained if its first Levenberg-Marquardt step does not lower the error, which
        seems to have happened in the published experiment.
    """
    check_one_of("training", training, TRAININGS)
    if lm_fail not in (None, "matlab97"):
        msg = f"lm_fail must be None or 'matlab97'; got {lm_fail!r}"
        raise ValueError(msg)
    hidden, epochs = check_whole("hidden", hidden), None if epochs is None else check_whole("epochs", epochs)
    low = data.x.min(axis=0)
    span = data.x.max(axis=0) - low
    span[span == 0.0] = 1.0
    layers = Layers(data.x.shape[1], hidden, 1 if data.classes == 2 else data.classes)
    own = np.eye(data.classes, dtype=bool)[data.label]
    target = np.where(own[:, 1:] if data.classes == 2 else own, _HIGH, _LOW)
    objective = SquaredError(layers, (data.x - low) / span, target, data.weight)
    theta = TRAININGS[training](objective, start_weights(layers, rng), epochs=epochs, lm_fail=lm_fail)
    return Net(low, span, layers, theta)
