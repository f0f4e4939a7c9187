/* Platt's sigmoid by Newton's method with backtracking, after the pseudo-code of
   H.-T. Lin, C.-J. Lin and R. C. Weng, A note on Platt's probabilistic outputs for support vector machines,
   Machine Learning 68 (2007), appendix: the algorithm that LIBSVM uses.

   Minimises F(A, B) = sum t (A f + B) + log(1 + exp(-A f - B)) for p = 1/(1 + exp(A f + B)). */

#include <math.h>
#include <stdlib.h>

static const int max_iter = 100;
static const double min_step = 1e-10, sigma = 1e-12, eps = 1e-5;

static double objective(long n, const double *f, const double *t, double A, double B)
{
    double sum = 0;
    for (long i = 0; i < n; i++) {
        double u = f[i] * A + B;
        sum += u >= 0 ? t[i] * u + log(1 + exp(-u)) : (t[i] - 1) * u + log(1 + exp(u));
    }
    return sum;
}

/* Returns the number of Newton steps; -1 if the line search fails, -2 if memory does. */
int sigmoid_newton(long n, const double *f, const double *y, double *A_out, double *B_out)
{
    double positive = 0, negative = 0;
    for (long i = 0; i < n; i++)
        if (y[i] > 0) positive++; else negative++;
    double high = (positive + 1) / (positive + 2), low = 1 / (negative + 2);
    double *t = malloc(n * sizeof *t);
    if (!t) return -2;
    for (long i = 0; i < n; i++)
        t[i] = y[i] > 0 ? high : low;

    double A = 0, B = log((negative + 1) / (positive + 1)), F = objective(n, f, t, A, B);
    int iteration;
    for (iteration = 0; iteration < max_iter; iteration++) {
        double h11 = sigma, h22 = sigma, h21 = 0, g1 = 0, g2 = 0;
        for (long i = 0; i < n; i++) {
            double u = f[i] * A + B, p, q;
            if (u >= 0) { double e = exp(-u); p = e / (1 + e); q = 1 / (1 + e); }
            else { double e = exp(u); p = 1 / (1 + e); q = e / (1 + e); }
            double d2 = p * q, d1 = t[i] - p;
            h11 += f[i] * f[i] * d2;
            h22 += d2;
            h21 += f[i] * d2;
            g1 += f[i] * d1;
            g2 += d1;
        }
        if (fabs(g1) < eps && fabs(g2) < eps) break;
        double det = h11 * h22 - h21 * h21;
        double dA = -(h22 * g1 - h21 * g2) / det, dB = -(-h21 * g1 + h11 * g2) / det, gd = g1 * dA + g2 * dB;
        double step = 1;
        while (step >= min_step) {
            double newF = objective(n, f, t, A + step * dA, B + step * dB);
            if (newF < F + 1e-4 * step * gd) {
                A += step * dA;
                B += step * dB;
                F = newF;
                break;
            }
            step /= 2;
        }
        if (step < min_step) { iteration = -1; break; }
    }
    free(t);
    *A_out = A;
    *B_out = B;
    return iteration;
}
