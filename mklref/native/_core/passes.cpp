// Passes over the kernel stack: combination of rows and application to a sparse vector, multi-threaded.
#include "loops.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

namespace mklref {
namespace {

constexpr Index kBlock = 1024;          // columns that are accumulated at a time: stays in the first-level cache
constexpr Index kSmallWork = 1 << 17;   // entries below which a second thread costs more than it saves

// sum += a[0] x[0] + ... + a[3] x[3], added one after the other: four streams at a time keep memory busy.
MKLREF_CLONES void add_double(const double *const *x, const double *a, double *sum, Index n) {
    const double *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    for (Index j = 0; j < n; ++j) sum[j] = (((sum[j] + a[0] * x0[j]) + a[1] * x1[j]) + a[2] * x2[j]) + a[3] * x3[j];
}

MKLREF_CLONES void add_single(const float *const *x, const double *a, double *sum, Index n) {
    const float *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    for (Index j = 0; j < n; ++j)
        sum[j] = (((sum[j] + a[0] * static_cast<double>(x0[j])) + a[1] * static_cast<double>(x1[j])) +
                  a[2] * static_cast<double>(x2[j])) + a[3] * static_cast<double>(x3[j]);
}

// Collects terms a * K_m[i, from : from + count] and adds them to a block of a sum, four at a time, in order.
class Block {
  public:
    Block(const Matrices &K, Index from, Index count, double *sum) : K_(K), from_(from), count_(count), sum_(sum) {}
    ~Block() {
        for (; held_ != 0;) push(K_.data[0], 0, 0.0);
    }
    void add(Index m, Index i, double a) { push(K_.data[m], i, a); }

  private:
    void push(const void *matrix, Index i, double a) {
        const Index offset = i * K_.n + from_;
        if (K_.single)
            singles_[held_] = static_cast<const float *>(matrix) + offset;
        else
            doubles_[held_] = static_cast<const double *>(matrix) + offset;
        factors_[held_++] = a;
        if (held_ < 4) return;
        held_ = 0;
        if (K_.single)
            add_single(singles_, factors_, sum_, count_);
        else
            add_double(doubles_, factors_, sum_, count_);
    }

    const Matrices &K_;
    const Index from_, count_;
    double *sum_;
    const double *doubles_[4];
    const float *singles_[4];
    double factors_[4];
    int held_ = 0;
};

// Run task(0), ..., task(count - 1) on up to `threads` threads; each task writes to its own memory.
template <class Task>
void parallel(Index count, Index work, int threads, const Task &task) {
    const int used = work < kSmallWork ? 1 : static_cast<int>(std::min<Index>(threads, count));
    if (used <= 1) {
        for (Index k = 0; k < count; ++k) task(k);
        return;
    }
    std::atomic<Index> next{0};
    auto run = [&] {
        for (Index k = next++; k < count; k = next++) task(k);
    };
    std::vector<std::thread> pool;
    for (int t = 1; t < used; ++t) pool.emplace_back(run);
    run();
    for (auto &thread : pool) thread.join();
}

template <class Number>
void gather_rows(const Number *matrix, const Index *index, Index count, Index n, Number *part) {
    for (Index r = 0; r < count; ++r) {
        const Number *row = matrix + index[r] * n;
        for (Index c = 0; c < count; ++c) part[r * count + c] = row[index[c]];
    }
}

}  // namespace

void combine_row(const Matrices &K, const double *weights, Index i, double *row) {
    std::memset(row, 0, sizeof(double) * static_cast<std::size_t>(K.n));
    for (Index from = 0; from < K.n; from += kBlock) {
        const Index count = std::min(kBlock, K.n - from);
        Block block(K, from, count, row + from);
        for (Index m = 0; m < K.count(); ++m)
            if (weights[m] != 0.0) block.add(m, i, weights[m]);
    }
}

void combine_rows(const Matrices &K, const double *weights, const Index *index, Index count, double *rows,
                  std::uint8_t *ready, int threads) {
    Index active = 0;
    for (Index m = 0; m < K.count(); ++m) active += weights[m] != 0.0;
    parallel(count, count * K.n * active, threads, [&](Index k) {
        combine_row(K, weights, index[k], rows + index[k] * K.n);
        ready[index[k]] = 1;
    });
}

void apply_rows(const Matrices &K, const Index *kernels, Index kernel_count, const Index *index, const double *delta,
                Index count, double *images, int threads) {
    parallel(kernel_count, kernel_count * K.n * count, threads, [&](Index k) {
        const Index m = kernels[k];
        for (Index from = 0; from < K.n; from += kBlock) {
            const Index width = std::min(kBlock, K.n - from);
            Block block(K, from, width, images + m * K.n + from);
            for (Index r = 0; r < count; ++r) block.add(m, index[r], delta[r]);
        }
    });
}

void gather(const Matrices &K, const Index *index, Index count, void *parts, int threads) {
    parallel(K.count(), K.count() * count * count, threads, [&](Index m) {
        const Index offset = m * count * count;
        if (K.single)
            gather_rows(static_cast<const float *>(K.data[m]), index, count, K.n, static_cast<float *>(parts) + offset);
        else
            gather_rows(static_cast<const double *>(K.data[m]), index, count, K.n, static_cast<double *>(parts) + offset);
    });
}

}  // namespace mklref
