"""How good probabilities are."""

from calibrant.metrics.scores import brier, log_loss, mcre

__all__ = ["brier", "log_loss", "mcre"]
