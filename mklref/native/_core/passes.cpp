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

MKLREF_CLONES void add_double(const double *x, double a, double *sum, Index n) {
    for (Index j = 0; j < n; ++j) sum[j] += a * x[j];
}

MKLREF_CLONES void add_single(const float *x, double a, double *sum, Index n) {
    for (Index j = 0; j < n; ++j) sum[j] += a * static_cast<double>(x[j]);
}

void add(const Matrices &K, Index m, Index i, Index from, Index count, double a, double *sum) {
    const Index offset = i * K.n + from;
    if (K.single)
        add_single(static_cast<const float *>(K.data[m]) + offset, a, sum, count);
    else
        add_double(static_cast<const double *>(K.data[m]) + offset, a, sum, count);
}

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

}  // namespace

void combine_row(const Matrices &K, const double *weights, Index i, double *row) {
    std::memset(row, 0, sizeof(double) * static_cast<std::size_t>(K.n));
    for (Index from = 0; from < K.n; from += kBlock) {
        const Index count = std::min(kBlock, K.n - from);
        for (Index m = 0; m < K.count(); ++m)
            if (weights[m] != 0.0) add(K, m, i, from, count, weights[m], row + from);
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
            for (Index r = 0; r < count; ++r) add(K, m, index[r], from, width, delta[r], images + m * K.n + from);
        }
    });
}

}  // namespace mklref
