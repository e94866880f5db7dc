// Passes over the kernel stack: combination of rows and application to a sparse vector, multi-threaded.
#include "loops.hpp"

#include <algorithm>
#include <cstring>

namespace mklref {
namespace {

constexpr Index kBlock = 1024;          // columns that are accumulated at a time: stays in the first-level cache
constexpr Index kBand = 1 << 13;        // entries of the rows that are accumulated at a time, of all of them: 64 kB
constexpr Index kTile = 64;             // order of the tiles in which a triangle is mirrored

// sum += a[0] x[0] + ... + a[3] x[3], added one after the other: four streams at a time keep memory busy.
template <class Number>
MKLREF_INLINE void add(const Number *const *x, const double *a, double *sum, Index n) {
    const Number *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    for (Index j = 0; j < n; ++j) {
        const double k0 = x0[j], k1 = x1[j], k2 = x2[j], k3 = x3[j];
        sum[j] = (((sum[j] + a[0] * k0) + a[1] * k1) + a[2] * k2) + a[3] * k3;
    }
}

MKLREF_CLONES void add_rows(const double *const *x, const double *a, double *sum, Index n) { add(x, a, sum, n); }
MKLREF_CLONES void add_rows(const float *const *x, const double *a, double *sum, Index n) { add(x, a, sum, n); }

// A line of memory on its way into the cache, where the hardware does not foresee it: rows of a triangle end early.
inline void ahead(const void *line) {
#if defined(__GNUC__)
    __builtin_prefetch(line);
#endif
}

// Four rows x of the lower triangle, both ways: sum += a[0] x[0] + ... + a[3] x[3], and dots[r] += x[r]'y.
// Eight partial sums for each dot product, in a fixed order. Meanwhile the rows `next`, needed later, are fetched.
constexpr Index kLanes = 8;

template <class Number>
MKLREF_INLINE void fold(const Number *const *x, const Number *const *next, const double *__restrict a,
                        const double *__restrict y, double *__restrict sum, double *__restrict dots, Index n) {
    const Number *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    double partial[4][kLanes] = {};
    Index j = 0;
    for (; j + kLanes <= n; j += kLanes) {
        for (Index r = 0; r < 4; ++r) ahead(next[r] + j);
        for (Index l = 0; l < kLanes; ++l) {
            const double k0 = x0[j + l], k1 = x1[j + l], k2 = x2[j + l], k3 = x3[j + l];
            sum[j + l] += ((a[0] * k0 + a[1] * k1) + a[2] * k2) + a[3] * k3;
            partial[0][l] += k0 * y[j + l];
            partial[1][l] += k1 * y[j + l];
            partial[2][l] += k2 * y[j + l];
            partial[3][l] += k3 * y[j + l];
        }
    }
    double d0 = dots[0], d1 = dots[1], d2 = dots[2], d3 = dots[3];  // here, so that nothing waits for memory
    for (Index l = 0; l < kLanes; ++l) d0 += partial[0][l], d1 += partial[1][l], d2 += partial[2][l], d3 += partial[3][l];
    for (; j < n; ++j) {
        const double k0 = x0[j], k1 = x1[j], k2 = x2[j], k3 = x3[j];
        sum[j] = (((sum[j] + a[0] * k0) + a[1] * k1) + a[2] * k2) + a[3] * k3;
        d0 += k0 * y[j], d1 += k1 * y[j], d2 += k2 * y[j], d3 += k3 * y[j];
    }
    dots[0] = d0, dots[1] = d1, dots[2] = d2, dots[3] = d3;
}

MKLREF_CLONES void fold_rows(const double *const *x, const double *const *next, const double *a, const double *y, double *sum,
                             double *dots, Index n) {
    fold(x, next, a, y, sum, dots, n);
}

MKLREF_CLONES void fold_rows(const float *const *x, const float *const *next, const double *a, const double *y, double *sum,
                             double *dots, Index n) {
    fold(x, next, a, y, sum, dots, n);
}

constexpr Index kAhead = 8;  // from a row to the one that is fetched with it

// image += K y for a symmetric K, four rows of its lower triangle at a time; their last entries one by one.
template <class Number>
void apply_symmetric(const Number *K, const double *y, double *image, Index n) {
    for (Index i = 0; i < n; i += 4) {
        const Index count = std::min<Index>(4, n - i);
        const Number *x[4], *next[4];
        double a[4] = {}, dots[4] = {};
        for (Index r = 0; r < 4; ++r) x[r] = K + (i + std::min(r, count - 1)) * n, next[r] = K + std::min(i + r + kAhead, n - 1) * n;
        for (Index r = 0; r < count; ++r) a[r] = y[i + r];
        fold_rows(x, next, a, y, image, dots, i);
        for (Index r = 0; r < count; ++r) {
            for (Index c = 0; c < r; ++c) dots[r] += x[r][i + c] * y[i + c], image[i + c] += x[r][i + c] * y[i + r];
            image[i + r] += dots[r] + x[r][i + r] * y[i + r];
        }
    }
}

// Calls run(double()) or run(float()) for the type of the matrices.
template <class Run>
void by_type(const Matrices &K, const Run &run) {
    K.single ? run(float()) : run(double());
}

template <class Number>
const Number *matrix(const Matrices &K, Index m) {
    return static_cast<const Number *>(K.data[m]);
}

// Collects terms a * K_m[i, from : from + count] and adds them to a block of a sum, four at a time, in order.
template <class Number>
class Block {
  public:
    Block(const Matrices &K, Index from, Index count, double *sum) : K_(K), from_(from), count_(count), sum_(sum) {}
    ~Block() {
        for (; held_ != 0;) add(0, 0, 0.0);
    }
    void add(Index m, Index i, double a) {
        rows_[held_] = matrix<Number>(K_, m) + i * K_.n + from_;
        factors_[held_++] = a;
        if (held_ < 4) return;
        held_ = 0;
        add_rows(rows_, factors_, sum_, count_);
    }

  private:
    const Matrices &K_;
    const Index from_, count_;
    double *sum_;
    const Number *rows_[4];
    double factors_[4];
    int held_ = 0;
};

// row = sum_m weights[m] K_m[i]
template <class Number>
void combine_row(const Matrices &K, const double *weights, Index i, double *row) {
    std::memset(row, 0, sizeof(double) * static_cast<std::size_t>(K.n));
    for (Index from = 0; from < K.n; from += kBlock) {
        Block<Number> block(K, from, std::min(kBlock, K.n - from), row + from);
        for (Index m = 0; m < K.count(); ++m)
            if (weights[m] != 0.0) block.add(m, i, weights[m]);
    }
}

Index active(const Matrices &K, const double *weights) {
    return K.count() - std::count(weights, weights + K.count(), 0.0);
}

// rows[i, 0 : i + 1] for first <= i < last, four matrices at a time, each of which is read in one go.
template <class Number>
void combine_band(const Matrices &K, const std::vector<Index> &used, const double *weights, Index first, Index last, double *rows) {
    for (Index i = first; i < last; ++i) std::memset(rows + i * K.n, 0, sizeof(double) * static_cast<std::size_t>(i + 1));
    for (std::size_t from = 0; from < used.size(); from += 4) {
        const Number *matrices[4], *x[4];
        double a[4] = {};
        for (std::size_t r = 0; r < 4; ++r) {
            const std::size_t at = std::min(from + r, used.size() - 1);
            matrices[r] = matrix<Number>(K, used[at]);
            if (at == from + r) a[r] = weights[used[at]];
        }
        for (Index i = first; i < last; ++i) {
            for (Index r = 0; r < 4; ++r) x[r] = matrices[r] + i * K.n;
            add_rows(x, a, rows + i * K.n, i + 1);
        }
    }
}

// Every row, from the lower triangles, by bands that stay in the second-level cache.
void combine_all(const Matrices &K, const double *weights, double *rows, std::uint8_t *ready, int threads) {
    const Index n = K.n, tiles = (n + kTile - 1) / kTile;
    const Index height = std::max<Index>(1, kBand / n), bands = (n + height - 1) / height;
    std::vector<Index> used;
    for (Index m = 0; m < K.count(); ++m)
        if (weights[m] != 0.0) used.push_back(m);
    parallel(bands, n * n * static_cast<Index>(used.size()) / 2, threads, [&](Index k) {
        const Index first = (bands - 1 - k) * height, last = std::min(n, first + height);  // the longest rows first
        by_type(K, [&](auto zero) { combine_band<decltype(zero)>(K, used, weights, first, last, rows); });
        std::memset(ready + first, 1, static_cast<std::size_t>(last - first));
    });
    parallel(tiles, n * n, threads, [&](Index tile) {
        const Index first = tile * kTile, last = std::min(n, first + kTile);
        for (Index from = first; from < n; from += kTile)
            for (Index i = first; i < last; ++i)
                for (Index j = std::max(from, i + 1); j < std::min(n, from + kTile); ++j) rows[i * n + j] = rows[j * n + i];
    });
}

}  // namespace

void combine_rows(const Matrices &K, const double *weights, const Index *index, Index count, double *rows,
                  std::uint8_t *ready, int threads) {
    if (2 * count > K.n) return combine_all(K, weights, rows, ready, threads);
    parallel(count, count * K.n * active(K, weights), threads, [&](Index k) {
        by_type(K, [&](auto zero) { combine_row<decltype(zero)>(K, weights, index[k], rows + index[k] * K.n); });
        ready[index[k]] = 1;
    });
}

void apply_rows(const Matrices &K, const Index *kernels, Index kernel_count, const Index *index, const double *delta,
                Index count, double *images, int threads) {
    if (2 * count > K.n) {
        std::vector<double> step(static_cast<std::size_t>(K.n), 0.0);
        for (Index r = 0; r < count; ++r) step[static_cast<std::size_t>(index[r])] += delta[r];
        return parallel(kernel_count, kernel_count * K.n * K.n / 2, threads, [&](Index k) {
            const Index m = kernels[k];
            by_type(K, [&](auto zero) { apply_symmetric(matrix<decltype(zero)>(K, m), step.data(), images + m * K.n, K.n); });
        });
    }
    parallel(kernel_count, kernel_count * K.n * count, threads, [&](Index k) {
        const Index m = kernels[k];
        by_type(K, [&](auto zero) {
            for (Index from = 0; from < K.n; from += kBlock) {
                Block<decltype(zero)> block(K, from, std::min(kBlock, K.n - from), images + m * K.n + from);
                for (Index r = 0; r < count; ++r) block.add(m, index[r], delta[r]);
            }
        });
    });
}

void gather(const Matrices &K, const Index *index, Index count, void *parts, int threads) {
    parallel(K.count(), K.count() * count * count, threads, [&](Index m) {
        by_type(K, [&](auto zero) {
            auto *part = static_cast<decltype(zero) *>(parts) + m * count * count;
            for (Index r = 0; r < count; ++r) {
                const auto *row = matrix<decltype(zero)>(K, m) + index[r] * K.n;
                for (Index c = 0; c < count; ++c) *part++ = row[index[c]];
            }
        });
    });
}

}  // namespace mklref
