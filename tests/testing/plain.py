"""Two solvers of lp-norm MKL as anybody writes them: no library but NumPy, and nothing of mklref but the problem."""

import numpy as np


def svm(K, y, C, steps=200_000, tol=1e-9):
    n = len(y)
    beta, f = np.zeros(n), np.zeros(n)
    low = np.where(y > 0, 0.0, -C)
    high = np.where(y > 0, C, 0.0)
    for _ in range(steps):
        g = y - f
        i = np.argmax(np.where(beta < high, g, -np.inf))
        j = np.argmin(np.where(beta > low, g, np.inf))
        if g[i] - g[j] < tol:
            break
        curvature = max(K[i, i] + K[j, j] - 2 * K[i, j], 1e-12)
        t = min((g[i] - g[j]) / curvature, high[i] - beta[i], beta[j] - low[j])
        beta[i] += t
        beta[j] -= t
        f += t * (K[:, i] - K[:, j])
    g = y - f
    b = (g[beta < high].max() + g[beta > low].min()) / 2
    return beta, b


def ridge_regression(K, y, C):
    n = len(y)
    A = np.ones((n + 1, n + 1))
    A[:n, :n] = K + np.eye(n) / C
    A[n, n] = 0.0
    x = np.linalg.solve(A, np.append(y, 0.0))
    return x[:n], x[n]


def solve(problem):
    K, y, C = np.array(problem.kernels), np.array(problem.y), problem.C
    p = problem.regularizer.p
    machine = svm if problem.loss.name == "hinge" else ridge_regression
    theta = np.full(len(K), len(K) ** (-1 / p))
    for _ in range(100):
        beta, b = machine(np.tensordot(theta, K, 1), y, C)
        norms = theta * np.sqrt(np.einsum("i,mij,j->m", beta, K, beta))
        new = norms ** (2 / (p + 1))
        new = new / np.linalg.norm(new, p)
        if np.abs(new - theta).max() < 1e-8:
            break
        theta = new
    return beta, theta, b
