// Convex quadratic programs, mostly of some dozens of variables: Mehrotra's primal-dual interior point method (1992).
//
//   minimise 1/2 x'Px + c'x,   Gx <= h,   a'x = 1
//   optimal where   Px + c + G'u + nu a = 0,   Gx + s = h,   a'x = 1,   u_k s_k = 0,   u, s >= 0
//
// The first rows of Gx <= h say that x_k >= 0 and are not written down. Each step factorises P + G' diag(u/s) G.
#include "loops.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace mklref {
namespace {

using Vector = std::vector<double>;

constexpr double kResidual = 100.0;  // what the residuals may be, in terms of u's / count
// From the error kClose on rounding may take over, where the system is all but singular: the best point is returned once
// the error is kDiverged times its own, or after kWaited steps without a better one.
constexpr double kClose = 1e-6, kDiverged = 1e3;
constexpr Index kWaited = 10;

double dot(const Vector &x, const Vector &y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); }

// The inequalities: x_k >= 0 for k < bounds, and Gx <= h with the rows of G from there on.
struct Inequalities {
    const double *G;
    std::size_t bounds, n;

    const double *row(std::size_t k) const { return G + (k - bounds) * n; }
    double times(std::size_t k, const Vector &x) const {
        return k < bounds ? -x[k] : std::inner_product(x.begin(), x.end(), row(k), 0.0);
    }
    // y += (-I, G)'u
    void add_transposed(const Vector &u, Vector &y) const {
        for (std::size_t k = 0; k < bounds; ++k) y[k] -= u[k];
        for (std::size_t k = bounds; k < u.size(); ++k)
            for (std::size_t j = 0; j < n; ++j) y[j] += row(k)[j] * u[k];
    }
};

constexpr Index kRank = 8;  // rows that are taken off a row at a time

// y -= factor x
MKLREF_CLONES void subtract(double *y, const double *x, double factor, Index n) {
    for (Index j = 0; j < n; ++j) y[j] -= factor * x[j];
}

// y -= f[0] x[0] + ... + f[7] x[7], taken off one after the other, for rows of length n one below the other.
MKLREF_CLONES void subtract_rows(double *__restrict y, const double *__restrict x, Index stride, const double *f, Index n) {
    const double f0 = f[0], f1 = f[1], f2 = f[2], f3 = f[3], f4 = f[4], f5 = f[5], f6 = f[6], f7 = f[7];
    const double *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride, *x4 = x3 + stride, *x5 = x4 + stride, *x6 = x5 + stride, *x7 = x6 + stride;
    for (Index j = 0; j < n; ++j)
        y[j] = (((((((y[j] - f0 * x[j]) - f1 * x1[j]) - f2 * x2[j]) - f3 * x3[j]) - f4 * x4[j]) - f5 * x5[j]) - f6 * x6[j]) - f7 * x7[j];
}

// sum += x P_j and size += |x P_j| for a row of P.
MKLREF_CLONES void add_row(double *__restrict sum, double *__restrict size, const double *__restrict row, double x, Index n) {
    for (Index i = 0; i < n; ++i) {
        const double term = row[i] * x;
        sum[i] += term, size[i] += std::abs(term);
    }
}

// The upper triangle of A becomes R with R'R = A; false where A is not positive definite.
bool cholesky(Vector &A, Index n) {
    double factors[kRank];
    for (Index first = 0; first < n; first += kRank) {
        const Index last = std::min(n, first + kRank);
        for (Index k = first; k < last; ++k) {
            double *row = A.data() + k * n;
            for (Index q = first; q < k; ++q) subtract(row + k, A.data() + q * n + k, A[static_cast<std::size_t>(q * n + k)], n - k);
            if (!(row[k] > 0.0)) return false;
            const double root = std::sqrt(row[k]);
            for (Index j = k; j < n; ++j) row[j] /= root;
        }
        for (Index i = last; i < n; ++i) {  // the last block may be shorter, but nothing is below it
            for (Index q = 0; q < kRank; ++q) factors[q] = A[static_cast<std::size_t>((first + q) * n + i)];
            subtract_rows(A.data() + i * n + i, A.data() + first * n + i, n, factors, n - i);
        }
    }
    return true;
}

// b becomes (R'R)^{-1} b.
void substitute(const Vector &R, Vector &b) {
    const Index n = static_cast<Index>(b.size());
    for (Index k = 0; k < n; ++k) {
        const double *row = R.data() + k * n;
        b[static_cast<std::size_t>(k)] /= row[k];
        subtract(b.data() + k + 1, row + k + 1, b[static_cast<std::size_t>(k)], n - k - 1);
    }
    for (Index k = n - 1; k >= 0; --k) {
        const double *row = R.data() + k * n;
        double value = b[static_cast<std::size_t>(k)];
        for (Index j = k + 1; j < n; ++j) value -= row[j] * b[static_cast<std::size_t>(j)];
        b[static_cast<std::size_t>(k)] = value / row[k];
    }
}

// The longest step in [0, 1] along dx that keeps x >= 0.
double longest(const Vector &x, const Vector &dx) {
    double most = 1.0;
    for (std::size_t k = 0; k < x.size(); ++k) most = std::max(most, -dx[k] / x[k]);
    return 1.0 / most;
}

void add(Vector &x, double t, const Vector &dx) {
    for (std::size_t k = 0; k < x.size(); ++k) x[k] += t * dx[k];
}

}  // namespace

bool quadratic_program(const double *P, const double *c, const double *G, const double *h, const double *a, Index variables,
                       Index bounds, Index rows, double *solution, double *multipliers, double tol, Index max_steps) {
    const auto n = static_cast<std::size_t>(variables), m = static_cast<std::size_t>(bounds), l = m + static_cast<std::size_t>(rows);
    const Inequalities all{G, m, n};
    const auto bound = [&](std::size_t k) { return k < m ? 0.0 : h[k - m]; };
    Vector x(solution, solution + n), s(l), u(l, 1.0), normal(n, 0.0), dual(n), primal(l), free(n), along(n), target(l);
    Vector dx(n), ds(l), du(l), weighted(l), sizes(n), system(n * n), factor;
    double nu = 0.0, dnu = 0.0, best = std::numeric_limits<double>::infinity();
    if (a) normal.assign(a, a + n);
    for (std::size_t k = 0; k < l; ++k) s[k] = std::max(bound(k) - all.times(k, x), 1.0);
    for (Index step = 0, reached = 0;; ++step) {
        double residual = 0.0;
        for (std::size_t i = 0; i < n; ++i) dual[i] = c[i] + nu * normal[i];
        all.add_transposed(u, dual);
        for (std::size_t i = 0; i < n; ++i) sizes[i] = 1.0 + std::abs(c[i]);
        for (std::size_t j = 0; j < n; ++j) add_row(dual.data(), sizes.data(), P + j * n, x[j], variables);
        for (std::size_t i = 0; i < n; ++i) residual = std::max(residual, std::abs(dual[i]) / sizes[i]);
        for (std::size_t k = 0; k < l; ++k) {
            primal[k] = all.times(k, x) + s[k] - bound(k);
            residual = std::max(residual, std::abs(primal[k]));
        }
        const double balance = a ? dot(normal, x) - 1.0 : 0.0, mu = dot(u, s) / static_cast<double>(l);
        const double error = std::max(mu, std::max(residual, std::abs(balance)) / kResidual);
        if (error < best || best > kClose) {
            best = error, reached = step;
            std::copy(x.begin(), x.end(), solution);
            std::copy(u.begin(), u.end(), multipliers);
        }
        const bool lost = error > kDiverged * best || step > reached + kWaited;
        if (error <= tol || (best < kClose && lost) || step == max_steps) return true;

        std::copy(P, P + n * n, system.begin());
        double trace = 0.0;
        for (std::size_t k = 0; k < m; ++k) system[k * n + k] += u[k] / s[k];
        for (std::size_t k = m; k < l; ++k)
            for (std::size_t i = 0; i < n; ++i) subtract(&system[i * n], all.row(k), -u[k] / s[k] * all.row(k)[i], variables);
        for (std::size_t i = 0; i < n; ++i) trace += std::abs(system[i * n + i]);
        double jitter = 1e-15 * trace / static_cast<double>(n);
        for (factor = system; !cholesky(factor, variables); factor = system, jitter *= 10.0) {
            if (!(jitter > 0.0) || !std::isfinite(jitter)) return best < kClose;
            for (std::size_t i = 0; i < n; ++i) system[i * n + i] += jitter;
        }
        along = normal;
        if (a) substitute(factor, along);

        auto direction = [&] {  // towards u_k s_k = target_k + u_k s_k, to first order
            for (std::size_t k = 0; k < l; ++k) weighted[k] = -(target[k] + u[k] * primal[k]) / s[k];
            for (std::size_t i = 0; i < n; ++i) free[i] = -dual[i];
            all.add_transposed(weighted, free);
            substitute(factor, free);
            dnu = a ? (dot(normal, free) + balance) / dot(normal, along) : 0.0;
            dx = free;
            add(dx, -dnu, along);
            for (std::size_t k = 0; k < l; ++k) {
                ds[k] = -primal[k] - all.times(k, dx);
                du[k] = (target[k] - u[k] * ds[k]) / s[k];
            }
        };
        for (std::size_t k = 0; k < l; ++k) target[k] = -u[k] * s[k];
        direction();
        const double t = std::min(longest(s, ds), longest(u, du));
        double ahead = 0.0;
        for (std::size_t k = 0; k < l; ++k) ahead += (s[k] + t * ds[k]) * (u[k] + t * du[k]);
        const double centring = std::pow(ahead / static_cast<double>(l) / mu, 3.0);
        for (std::size_t k = 0; k < l; ++k) target[k] = centring * mu - u[k] * s[k] - ds[k] * du[k];
        direction();
        const double length = std::min({1.0, 0.995 * longest(s, ds), 0.995 * longest(u, du)});
        add(x, length, dx), add(s, length, ds), add(u, length, du);
        nu += length * dnu;
    }
}

}  // namespace mklref
