"""Kernel logistic regression: kernels, losses, low rank, Newton's method and conjugate gradients, leave-one-out."""
