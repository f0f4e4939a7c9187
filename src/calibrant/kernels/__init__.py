"""Kernel machines: what their dual solutions say about rows they have not seen."""

from __future__ import annotations

from calibrant.kernels.leave_one_out import LEAVE_ONE_OUT, loo_drop_own, loo_span, svc_leave_one_out
from calibrant.kernels.support import Machine

__all__ = ["LEAVE_ONE_OUT", "Machine", "loo_drop_own", "loo_span", "svc_leave_one_out"]
