"""What a fitted support vector machine tells: its dual, leave-one-out scores, moderated outputs, local cosines."""

from __future__ import annotations

from calibrant.svm.leave_one_out import LEAVE_ONE_OUT, loo_drop_own, loo_span, svc_leave_one_out
from calibrant.svm.support import Machine

__all__ = ["LEAVE_ONE_OUT", "Machine", "loo_drop_own", "loo_span", "svc_leave_one_out"]
