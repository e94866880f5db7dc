r"""The dual of any loss and any regulariser.

Statement, over beta (n,) and z_m (r_m,), where K_m = L_m L_m' and so ||z_m|| = g_m = sqrt(beta'K_m beta):

    maximise    -sum_i c_i V*(-beta_i/c_i, y_i) - R*(||z_1||, ..., ||z_M||)
    subject to  z_m = L_m'beta     for every m
                1'beta = c_b       if there is an intercept

Dual: `mixed_norm`, of the same value.

Recovery: the multiplier of z_m = L_m'beta is -v_m, where f_m = L_m v_m on the training samples. So the norms
rho_m = ||v_m|| are at hand even where the weights are no function of beta (p = 1), and theta follows from them
in closed form; for `BlockNorm(q)` with q > 2 from beta. b is the multiplier of 1'beta = c_b.

Source: Kloft (D), where R*(g) = 1/2 ||(g_m^2)_m||_{p*} for an lp ball; its (10) holds for norms that are
monotone on the orthant, which R* as defined here repairs for all others (erratum L3). In the display before it C
belongs to V alone (L2), and the dual of the group lasso, (15), goes without labels (L5).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref import losses, regularizers as reg
from mklref._conic.cones import cp, norm, norms, power, squares
from mklref._conic.model import Model, balance, balance_multiplier, cost_parameters, multiplier
from mklref._conic.scaling import Factors
from mklref._typing import Array
from mklref.formulations.base import Formulation
from mklref.losses.base import Costs
from mklref.problem import Point, Problem
from mklref.regularizers.norms import conjugate_exponent
from mklref.regularizers.rescaled import Rescaled


class Dual(Formulation):
    """Conjugates of the losses and of the regulariser; applies to every problem."""

    name = "dual"

    def build(self, problem: Problem, L: Factors) -> Model:
        c = cost_parameters(problem.n_samples)
        beta = cp.Variable(problem.n_samples, name="beta")
        z = cp.Variable(L.stacked.shape[1], name="z")
        conjugates, box = V_star(problem.loss, beta, problem.y, c)
        penalty, domain = R_star(problem.regularizer, L.split(z))
        images = z == L.stacked.T @ beta
        intercept = balance(problem, beta)

        def recover() -> Point:
            rho = L.norms(multiplier(images))
            theta = problem.regularizer.weights_at(rho, L.norms(z.value))
            return Point(beta.value, theta, balance_multiplier(intercept))

        objective = cp.Maximize(-conjugates - penalty)
        return Model(cp.Problem(objective, [images, *intercept, *box, *domain]), c, recover)


def V_star(loss: losses.Loss, beta: Any, y: Array, c: Costs) -> tuple[Any, list[Any]]:
    """sum_i c_i V*(-beta_i/c_i, y_i) as a convex cvxpy scalar, and its domain; DPP in the costs."""
    alpha = cp.multiply(y, beta)
    square = 0.5 * cp.sum(cp.multiply(c.inverse, cp.square(beta)))  # 1/2 sum_i beta_i^2 / c_i
    match loss:
        case losses.Hinge():
            return -cp.sum(alpha), [alpha >= 0, alpha <= c.value]
        case losses.SquaredHinge():
            return square - cp.sum(alpha), [alpha >= 0]
        case losses.Logistic():  # sum_i alpha_i log(alpha_i/c_i) + (c_i - alpha_i) log((c_i - alpha_i)/c_i)
            return cp.sum(cp.rel_entr(alpha, c.value) + cp.rel_entr(c.value - alpha, c.value)), []
        case losses.Squared():
            return square - y @ beta, []
        case losses.EpsilonInsensitive(epsilon=epsilon):
            return epsilon * cp.norm1(beta) - y @ beta, [beta <= c.value, -beta <= c.value]
        case losses.SquaredEpsilonInsensitive(epsilon=epsilon):
            return square + epsilon * cp.norm1(beta) - y @ beta, []
        case losses.Huber(delta=delta):
            return square - y @ beta, [beta <= delta * c.value, -beta <= delta * c.value]
        case losses.Pinball(tau=tau):
            return -y @ beta, [beta <= tau * c.value, -beta <= (1.0 - tau) * c.value]
        case losses.OneClass():
            return cp.Constant(0.0), [beta >= 0, beta <= c.value]
        case losses.DensityLevelSet():
            return -cp.sum(beta), [beta >= 0, beta <= c.value]
    return loss.dual_atom(beta, y, c)


def R_star(regularizer: reg.Regularizer, z: list[Any]) -> tuple[Any, list[Any]]:
    """R*(||z_1||, ..., ||z_M||) as a convex cvxpy scalar of affine vectors, and constraints."""
    match regularizer:
        case reg.Lp(p=p):  # 1/2 ||(||z_m||^2)_m||_{p*}
            return 0.5 * norm(squares(z), conjugate_exponent(p)), []
        case reg.WeightedLp(p=p, scale=scale):  # 1/2 ||(scale_m ||z_m||^2)_m||_{p*}
            return R_star(reg.Lp(p), _scaled(np.sqrt(scale), z))
        case reg.Fixed(weights=theta):  # 1/2 sum theta_m ||z_m||^2
            return 0.5 * cp.sum_squares(cp.hstack(_scaled(np.sqrt(theta), z))), []
        case reg.BlockNorm(q=q):  # 1/2 ||(||z_m||)_m||_{q*}^2
            return 0.5 * cp.square(norm(norms(z), conjugate_exponent(q))), []
        case reg.Mahalanobis(E=E):  # min { 1/2 sqrt(u'Eu) : u_m >= ||z_m||^2 }
            u = cp.Variable(len(E), nonneg=True)
            return 0.5 * cp.norm(np.linalg.cholesky(E).T @ u), [u >= squares(z)]
        case reg.Groups(groups=groups, p=p, gamma=gamma, gamma0=gamma0):
            g = norms(z)  # 1/2 ||(d_l^{-p/2} ||g_l||_gamma*)_l||_gamma0*^2
            within = [len(group) ** (-0.5 * p) * norm(g[list(group)], conjugate_exponent(gamma)) for group in groups]
            return 0.5 * cp.square(norm(cp.hstack(within), conjugate_exponent(gamma0))), []
        case reg.Power(degree=1.0) | reg.ConcaveBlock(g=reg.PowerRoot(degree=1.0)):  # ||z_m|| <= 1
            return cp.Constant(0.0), [norms(z) <= 1]
        case reg.Power(degree=q) | reg.ConcaveBlock(g=reg.PowerRoot(degree=q)):  # 1/q* sum ||z_m||^{q*}
            return cp.sum(power(norms(z), conjugate_exponent(q))) / conjugate_exponent(q), []
        case reg.HalfPower(q=1.0):  # ||z_m|| <= 1/2
            return cp.Constant(0.0), [norms(z) <= 0.5]
        case reg.HalfPower(q=q):  # q/(2 q*) sum (2/q ||z_m||)^{q*}
            return 0.5 * q * cp.sum(power(2.0 / q * norms(z), conjugate_exponent(q))) / conjugate_exponent(q), []
        case reg.WeightedL1(omega=omega):  # ||z_m|| <= omega_m
            return cp.Constant(0.0), [norms(z) <= omega]
        case reg.Tikhonov(p=p, mu=mu):  # 1/(16 mu) ||(||z_m||^2)_m||_{p*}^2
            return cp.square(norm(squares(z), conjugate_exponent(p))) / (16.0 * mu), []
        case reg.ElasticNet(lam=lam, form="tikhonov") | reg.ConcaveBlock(g=reg.RootPlusLinear(lam=lam)):
            return cp.sum_squares(cp.pos(norms(z) - (1.0 - lam))) / (2.0 * lam), []
        case reg.ElasticNet(lam=lam, form="ivanov"):  # min over tau >= 0
            tau = cp.Variable(nonneg=True)
            above = cp.sum_squares(cp.pos(norms(z) - tau)) / (2.0 * lam)
            return cp.square(tau) / (2.0 * (1.0 - lam)) + above, []
        case reg.ConcaveBlock(g=reg.SmoothedRoot(epsilon=epsilon)):
            # epsilon sum u_m, ||z_m||^2 + u_m^2 <= 2 u_m, with u = t^2 w of order t^2 where norms are of order one
            w, t = cp.Variable(len(z), nonneg=True), min(1.0, 1.0 / epsilon)
            arcs = [cp.quad_over_lin(cp.hstack([z_m / t, t * w_m]), w_m) <= 2 for z_m, w_m in zip(z, w, strict=True)]
            return epsilon * t * t * cp.sum(w), arcs
        case Rescaled(base=base, root=root, factor=factor):  # factor R_base*(root z / factor)
            penalty, domain = R_star(base, _scaled(np.broadcast_to(root / factor, len(z)), z))
            return factor * penalty, domain
    return regularizer.conjugate_atom(z)


def _scaled(roots: Array, z: list[Any]) -> list[Any]:
    """(root_m z_m) where root_m is not 0."""
    return [root * z_m for root, z_m in zip(roots, z, strict=True) if root > 0.0]
