// Sequential minimal optimisation on a box, with or without the constraint that the sum stays.
//
// With the gradient G and the kink of absolute |beta_i| at 0, the one-sided derivatives of the objective are
//   right_i = G_i + absolute if beta_i >= 0 else G_i - absolute     (increase; +inf at the upper bound)
//   left_i  = G_i + absolute if beta_i >  0 else G_i - absolute     (decrease; -inf at the lower bound)
// and beta is optimal on {1'beta = const} when max left <= min right. A step moves t from the coordinate j of a
// large left derivative to the coordinate i of the smallest right one; i is the most violating coordinate and j
// maximises the decrease (left_j - right_i)^2 / (2 a_ij), a_ij = Q_ii + Q_jj - 2 Q_ij (Fan, Chen and Lin 2005).
// Without the constraint a step moves one coordinate or such a pair, whichever decreases more: pairs alone see
// past a large constant in Q, which makes single coordinates crawl (Steinwart, Hush and Scovel 2011).
#include "loops.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace mklref {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kTinyCurvature = 1e-12;  // relative to the diagonal: a direction in which Q is singular
constexpr Index kBlock = 128;             // the best entry is found by block first, so that the loop vectorises
constexpr Index kPollEvery = 1024;
constexpr Index kBatch = 8;  // rows that are formed at a time by several threads

struct Extremes {
    double smallest_right, largest_left;
    Index block_of_smallest, block_of_largest;
};

// G += t (row_i - row_j), then the extremes of G + right_offset and G + left_offset.
MKLREF_CLONES Extremes update_gradient(double *G, const double *row_i, const double *row_j, double t, double t_j,
                                       const double *right_offset, const double *left_offset, Index n) {
    Extremes best{kInf, -kInf, 0, 0};
    for (Index from = 0; from < n; from += kBlock) {
        const Index to = std::min(n, from + kBlock);
        double smallest = kInf, largest = -kInf;
#pragma omp simd reduction(min : smallest) reduction(max : largest)
        for (Index k = from; k < to; ++k) {
            const double g = G[k] + (t * row_i[k] - t_j * row_j[k]);
            G[k] = g;
            const double right = g + right_offset[k], left = g + left_offset[k];
            smallest = right < smallest ? right : smallest;
            largest = left > largest ? left : largest;
        }
        if (smallest < best.smallest_right) best.smallest_right = smallest, best.block_of_smallest = from;
        if (largest > best.largest_left) best.largest_left = largest, best.block_of_largest = from;
    }
    return best;
}

// The block in which (left_k - right_i)^2 / a_ik is largest over left_k > right_i.
MKLREF_CLONES Index best_partner_block(const double *G, const double *left_offset, const double *row_i,
                                       const double *diagonal, double right_i, double diagonal_i, double floor, Index n,
                                       double *best_gain) {
    Index block = 0;
    double best = -1.0;
    for (Index from = 0; from < n; from += kBlock) {
        const Index to = std::min(n, from + kBlock);
        double gain = -1.0;
#pragma omp simd reduction(max : gain)
        for (Index k = from; k < to; ++k) {
            double d = (G[k] + left_offset[k]) - right_i;
            d = d > 0.0 ? d : 0.0;
            double a = (diagonal_i + diagonal[k]) - 2.0 * row_i[k];
            a = a > floor ? a : floor;
            const double value = d * d / a;
            gain = value > gain ? value : gain;
        }
        if (gain > best) best = gain, block = from;
    }
    *best_gain = best;
    return block;
}

class Solver {
  public:
    Solver(const BoxQuadratic &problem, double *beta, double *gradient)
        : p_(problem), n_(problem.K.n), beta_(beta), G_(gradient), right_offset_(n_), left_offset_(n_) {
        double top = 0.0;
        for (Index k = 0; k < n_; ++k) top = std::max(top, p_.diagonal[k]), refresh(k);
        floor_ = kTinyCurvature * (top > 0.0 ? top : 1.0);
    }

    SmoResult run(double tol, Index max_steps, const std::function<bool()> &poll) {
        Extremes best = scan();
        auto last = std::chrono::steady_clock::now();
        Index steps = 0;
        double left_over = violation(best);
        for (; left_over > std::max(tol, 0.0) && steps < max_steps; ++steps) {
            if (steps % kPollEvery == kPollEvery - 1) {
                const auto now = std::chrono::steady_clock::now();
                if (now - last > std::chrono::milliseconds(50) && !poll()) break;
                if (now - last > std::chrono::milliseconds(50)) last = now;
            }
            best = step(best);
            left_over = violation(best);
        }
        return {steps, formed_, left_over};
    }

  private:
    void refresh(Index k) {
        const double a = p_.absolute;
        right_offset_[k] = beta_[k] < p_.upper[k] ? (beta_[k] >= 0.0 ? a : -a) : kInf;
        left_offset_[k] = beta_[k] > p_.lower[k] ? (beta_[k] > 0.0 ? a : -a) : -kInf;
    }

    double violation(const Extremes &e) const {
        return p_.equality ? e.largest_left - e.smallest_right : std::max(e.largest_left, -e.smallest_right);
    }

    Extremes scan() {
        return update_gradient(G_, G_, G_, 0.0, 0.0, right_offset_.data(), left_offset_.data(), n_);
    }

    const double *row(Index i) {
        double *r = p_.rows + i * n_;
        if (!p_.ready[i]) form(i);
        return r;
    }

    // Row i, and with several threads the missing rows of the largest violations: they are likely to be next.
    void form(Index i) {
        Index batch[kBatch] = {i};
        double score[kBatch] = {kInf};
        Index count = 1;
        for (Index k = 0; p_.threads > 1 && k < n_; ++k) {
            if (p_.ready[k] || k == i) continue;
            const double v = std::max(G_[k] + left_offset_[k] - middle_, middle_ - G_[k] - right_offset_[k]);
            if (count == kBatch && !(v > score[kBatch - 1])) continue;
            Index at = count < kBatch ? count++ : kBatch - 1;
            for (; at > 1 && score[at - 1] < v; --at) score[at] = score[at - 1], batch[at] = batch[at - 1];
            score[at] = v, batch[at] = k;
        }
        combine_rows(p_.K, p_.weights, batch, count, p_.rows, p_.ready, p_.threads);
        formed_ += count;
    }

    // How far beta_k can go up or down before a bound or the kink at 0.
    double room_up(Index k) const {
        return p_.absolute > 0.0 && beta_[k] < 0.0 ? std::min(-beta_[k], p_.upper[k] - beta_[k]) : p_.upper[k] - beta_[k];
    }
    double room_down(Index k) const {
        return p_.absolute > 0.0 && beta_[k] > 0.0 ? std::min(beta_[k], beta_[k] - p_.lower[k]) : beta_[k] - p_.lower[k];
    }
    // Move, and land exactly on the bound or the kink when the whole room is used.
    void move_up(Index k, double t) {
        const bool all = t >= room_up(k);
        const double end = p_.absolute > 0.0 && beta_[k] < 0.0 ? std::min(0.0, p_.upper[k]) : p_.upper[k];
        beta_[k] = all ? end : beta_[k] + t;
        refresh(k);
    }
    void move_down(Index k, double t) {
        const bool all = t >= room_down(k);
        const double end = p_.absolute > 0.0 && beta_[k] > 0.0 ? std::max(0.0, p_.lower[k]) : p_.lower[k];
        beta_[k] = all ? end : beta_[k] - t;
        refresh(k);
    }

    Extremes step(const Extremes &best) {
        const bool bounded = best.largest_left > -kInf && best.smallest_right < kInf;
        middle_ = p_.equality && bounded ? 0.5 * (best.largest_left + best.smallest_right) : 0.0;
        if (p_.equality) return pair_step(best, 0.0);
        // Both one-sided violations on their own; their gains bound what a pair has to beat.
        Index single = 0;
        double gain = -1.0;
        for (Index k = 0; k < n_; ++k) {
            const double v = std::max({0.0, G_[k] + left_offset_[k], -(G_[k] + right_offset_[k])});
            const double value = v * v / std::max(floor_, p_.diagonal[k]);
            if (value > gain) gain = value, single = k;
        }
        if (best.largest_left == -kInf || best.smallest_right == kInf) return single_step(single);
        return pair_step(best, gain, single);
    }

    // A pair step, or a step of the coordinate `single` if its gain is larger.
    Extremes pair_step(const Extremes &best, double single_gain, Index single = 0) {
        Index i = best.block_of_smallest;
        while (G_[i] + right_offset_[i] != best.smallest_right) ++i;
        const double *row_i = row(i);
        const double right = best.smallest_right;
        double gain;
        Index j = best_partner_block(G_, left_offset_.data(), row_i, p_.diagonal, right, p_.diagonal[i], floor_, n_, &gain);
        if (gain < single_gain) return single_step(single);
        for (;; ++j) {
            const double d = std::max(0.0, (G_[j] + left_offset_[j]) - right);
            const double a = std::max(floor_, (p_.diagonal[i] + p_.diagonal[j]) - 2.0 * row_i[j]);
            if (d * d / a == gain) break;
        }
        const double *row_j = row(j);
        const double a = std::max(floor_, (p_.diagonal[i] + p_.diagonal[j]) - 2.0 * row_i[j]);
        const double d = (G_[j] + left_offset_[j]) - right;
        const double t = std::min({d / a, room_up(i), room_down(j)});
        // The diagonal shift acts on the moved coordinates alone.
        const double shift_i = p_.diagonal[i] - row_i[i], shift_j = p_.diagonal[j] - row_j[j];
        move_up(i, t);
        move_down(j, t);
        G_[i] += t * shift_i;
        G_[j] -= t * shift_j;
        return update_gradient(G_, row_i, row_j, t, t, right_offset_.data(), left_offset_.data(), n_);
    }

    Extremes single_step(Index i) {
        const double *row_i = row(i);
        const double a = std::max(floor_, p_.diagonal[i]);
        const double down = G_[i] + left_offset_[i], up = -(G_[i] + right_offset_[i]);
        const double shift = p_.diagonal[i] - row_i[i];
        double t;
        if (up >= down)
            t = std::min(up / a, room_up(i)), move_up(i, t);
        else
            t = -std::min(down / a, room_down(i)), move_down(i, -t);
        G_[i] += t * shift;
        return update_gradient(G_, row_i, row_i, t, 0.0, right_offset_.data(), left_offset_.data(), n_);
    }

    const BoxQuadratic &p_;
    const Index n_;
    double *beta_, *G_;
    std::vector<double> right_offset_, left_offset_;
    double floor_ = 0.0;
    double middle_ = 0.0;  // between the extremes: the multiplier of the constraint, so far
    Index formed_ = 0;
};

}  // namespace

SmoResult smo(const BoxQuadratic &problem, double *beta, double *gradient, double tol, Index max_steps,
              const std::function<bool()> &poll) {
    return Solver(problem, beta, gradient).run(tol, max_steps, poll);
}

}  // namespace mklref
