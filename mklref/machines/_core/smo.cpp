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
//
// Shrinking: now and then the samples that sit at a bound and want to stay there, judged by the present extremes, are
// left out (Joachims 1999). The rest is a problem of its own, on compact copies, that this same loop solves; then the
// gradient of the others follows from the rows of what moved, and the loop goes on with all samples.
#include "loops.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

namespace mklref {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMax = std::numeric_limits<double>::max();  // where clang begins an OpenMP minimum of infinities
constexpr double kTinyCurvature = 1e-12;  // relative to the diagonal: a direction in which Q is singular
constexpr Index kBlock = 128;             // the best entry is found by block first, so that the loop vectorises
constexpr Index kPollEvery = 1024;           // steps from one look at the clock to the next, at most,
constexpr Index kPollWork = Index{1} << 18;  // and samples that they touch: a millisecond or less
constexpr Index kAtMost = 2;  // samples for each that is kept, at least: where fewer are left out, copies do not pay
constexpr Index kBatch = 8;  // rows that are formed at a time by several threads
constexpr Index kShort = 256, kMany = 8;  // of at most so many samples: one row in so many is formed, then all at once

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
        if (smallest < std::min(best.smallest_right, kMax)) best.smallest_right = smallest, best.block_of_smallest = from;
        if (largest > std::max(best.largest_left, -kMax)) best.largest_left = largest, best.block_of_largest = from;
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

// The rows of Q, each made when it is first asked for.
class Rows {
  public:
    virtual ~Rows() = default;
    // Row i; others that are likely to be asked for next are those of large `score(k)`.
    virtual const double *get(Index i, const std::function<double(Index)> &score) = 0;
};

class Combined : public Rows {
  public:
    explicit Combined(const BoxQuadratic &problem) : p_(problem) {}

    // With several threads the missing rows of the largest scores are formed along with row i.
    const double *get(Index i, const std::function<double(Index)> &score) override {
        if (p_.ready[i]) return p_.rows + i * p_.K.n;
        if (p_.K.n <= kShort && kMany * formed >= p_.K.n) return whole() + i * p_.K.n;
        Index batch[kBatch] = {i};
        double scores[kBatch] = {kInf};
        Index count = 1;
        for (Index k = 0; p_.threads > 1 && k < p_.K.n; ++k) {
            if (p_.ready[k] || k == i) continue;
            const double v = score(k);
            if (count == kBatch && !(v > scores[kBatch - 1])) continue;
            Index at = count < kBatch ? count++ : kBatch - 1;
            for (; at > 1 && scores[at - 1] < v; --at) scores[at] = scores[at - 1], batch[at] = batch[at - 1];
            scores[at] = v, batch[at] = k;
        }
        combine_rows(p_.K, p_.weights, batch, count, p_.rows, p_.ready, p_.threads);
        formed += count;
        return p_.rows + i * p_.K.n;
    }

    Index formed = 0;

  private:
    // Short rows far apart in memory are read at half its speed: all lower triangles cost less than half of the rows.
    const double *whole() {
        std::vector<Index> every(static_cast<std::size_t>(p_.K.n));
        std::iota(every.begin(), every.end(), Index{0});
        combine_rows(p_.K, p_.weights, every.data(), p_.K.n, p_.rows, p_.ready, p_.threads);
        formed += p_.K.n / 2;
        return p_.rows;
    }

    const BoxQuadratic &p_;
};

// The part of other rows that belongs to some of the samples.
class Gathered : public Rows {
  public:
    Gathered(Rows &whole, const std::function<double(Index)> &score, const std::vector<Index> &kept)
        : whole_(whole), score_(score), kept_(kept), ready_(kept.size()), part_(new double[kept.size() * kept.size()]) {}

    const double *get(Index i, const std::function<double(Index)> &) override {
        const auto count = static_cast<Index>(kept_.size());
        double *part = part_.get() + i * count;
        if (!ready_[i]) {
            const double *row = whole_.get(kept_[i], score_);
            for (Index c = 0; c < count; ++c) part[c] = row[kept_[c]];
            ready_[i] = 1;
        }
        return part;
    }

  private:
    Rows &whole_;
    const std::function<double(Index)> &score_;
    const std::vector<Index> &kept_;
    std::vector<std::uint8_t> ready_;
    std::unique_ptr<double[]> part_;  // only what is touched is backed by memory
};

std::vector<double> pick(const double *values, const std::vector<Index> &kept) {
    std::vector<double> part;
    part.reserve(kept.size());
    for (const Index k : kept) part.push_back(values[k]);
    return part;
}

class Solver {
  public:
    Solver(const Box &box, Rows &rows, double *beta, double *gradient)
        : p_(box), rows_(rows), n_(box.n), beta_(beta), G_(gradient), right_offset_(n_), left_offset_(n_) {
        double top = 0.0;
        for (Index k = 0; k < n_; ++k) top = std::max(top, p_.diagonal[k]), refresh(k);
        floor_ = kTinyCurvature * (top > 0.0 ? top : 1.0);
    }

    // Returns the number of steps; `left_over` is the violation then.
    Index run(double tol, Index max_steps, Index shrink_every, const std::function<bool()> &poll) {
        Extremes best = scan();
        auto last = std::chrono::steady_clock::now();
        const Index look_every = std::clamp(kPollWork / n_, Index{1}, kPollEvery);
        Index steps = 0, since_look = 0;
        left_over = violation(best);
        while (left_over > std::max(tol, 0.0) && steps < max_steps) {
            if (steps % look_every == look_every - 1) {
                const auto now = std::chrono::steady_clock::now();
                if (now - last > std::chrono::milliseconds(50) && !poll()) break;
                if (now - last > std::chrono::milliseconds(50)) last = now;
            }
            if (since_look++ == shrink_every) {
                since_look = 0;
                const auto kept = that_may_move(best);
                if (kept.size() > 1 && kAtMost * static_cast<Index>(kept.size()) <= n_) {
                    steps += run_on(kept, tol, max_steps - steps, shrink_every, poll);
                    best = scan();
                    left_over = violation(best);
                    if (!poll()) break;
                    continue;
                }
            }
            best = step(best);
            left_over = violation(best);
            ++steps;
        }
        return steps;
    }

    double left_over = kInf;

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

    const double *row(Index i) { return rows_.get(i, score_); }

    // Samples that a step within the present extremes could move.
    std::vector<Index> that_may_move(const Extremes &best) const {
        const double high = p_.equality ? best.largest_left : std::max(best.largest_left, 0.0);
        const double low = p_.equality ? best.smallest_right : std::min(best.smallest_right, 0.0);
        std::vector<Index> kept;
        for (Index k = 0; k < n_; ++k)
            if (G_[k] + right_offset_[k] < high || G_[k] + left_offset_[k] > low) kept.push_back(k);
        return kept;
    }

    // The same loop on some of the samples; then everybody's gradient.
    Index run_on(const std::vector<Index> &kept, double tol, Index max_steps, Index shrink_every,
                 const std::function<bool()> &poll) {
        const auto diagonal = pick(p_.diagonal, kept), lower = pick(p_.lower, kept), upper = pick(p_.upper, kept);
        auto beta = pick(beta_, kept), gradient = pick(G_, kept);
        const auto count = static_cast<Index>(kept.size());
        Gathered rows(rows_, score_, kept);
        const Box box{count, diagonal.data(), lower.data(), upper.data(), p_.absolute, p_.equality};
        const Index steps = Solver(box, rows, beta.data(), gradient.data()).run(tol, max_steps, shrink_every, poll);
        for (Index c = 0; c < count; ++c) {
            const Index k = kept[c];
            const double moved = beta[c] - beta_[k];
            if (moved == 0.0) continue;
            beta_[k] = beta[c];
            refresh(k);
            const double *r = row(k);
            update_gradient(G_, r, r, moved, 0.0, right_offset_.data(), left_offset_.data(), n_);
        }
        for (Index c = 0; c < count; ++c) G_[kept[c]] = gradient[c];
        return steps;
    }

    // How far a value can rise before its bound or the kink at 0. What falls is minus a value that rises.
    double room(double value, double bound) const {
        return p_.absolute > 0.0 && value < 0.0 ? std::min(-value, bound - value) : bound - value;
    }
    // The value raised by t, exactly onto the bound or the kink when the whole room is used.
    double raised(double value, double bound, double t) const {
        if (t < room(value, bound)) return value + t;
        return p_.absolute > 0.0 && value < 0.0 ? std::min(0.0, bound) : bound;
    }
    double room_up(Index k) const { return room(beta_[k], p_.upper[k]); }
    double room_down(Index k) const { return room(-beta_[k], -p_.lower[k]); }
    void move_up(Index k, double t) { beta_[k] = raised(beta_[k], p_.upper[k], t), refresh(k); }
    void move_down(Index k, double t) { beta_[k] = -raised(-beta_[k], -p_.lower[k], t), refresh(k); }

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

    const Box &p_;
    Rows &rows_;
    const Index n_;
    double *beta_, *G_;
    std::vector<double> right_offset_, left_offset_;
    double floor_ = 0.0;
    double middle_ = 0.0;  // between the extremes: the multiplier of the constraint, so far
    const std::function<double(Index)> score_ = [this](Index k) {
        return std::max(G_[k] + left_offset_[k] - middle_, middle_ - G_[k] - right_offset_[k]);
    };
};

}  // namespace

SmoResult smo(const BoxQuadratic &problem, double *beta, double *gradient, double tol, Index max_steps, Index shrink_every,
              const std::function<bool()> &poll) {
    Combined rows(problem);
    Solver solver(problem.box, rows, beta, gradient);
    const Index steps = solver.run(tol, max_steps, shrink_every, poll);
    return {steps, rows.formed, solver.left_over};
}

}  // namespace mklref
