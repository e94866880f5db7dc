// The compiled loops of the native solver: plain arrays in, plain arrays out, no policy. Tasks on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

// Hot functions are compiled for several instruction sets and chosen when the library is loaded.
#if !defined(__GNUC__) || defined(__clang__) || !defined(__x86_64__) || !defined(__gnu_linux__)
#define MKLREF_CLONES
#elif __GNUC__ < 12  // which cannot choose by level
#define MKLREF_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MKLREF_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

// What they call is compiled with them.
#if defined(_MSC_VER) && !defined(__clang__)
#define MKLREF_INLINE __forceinline
#else
#define MKLREF_INLINE inline __attribute__((always_inline))
#endif

namespace mklref {

using Index = std::int64_t;

constexpr Index kSmallWork = 1 << 19;  // entries below which a second thread costs more than it saves

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
    try {
        pool.reserve(static_cast<std::size_t>(used - 1));
        for (int t = 1; t < used; ++t) pool.emplace_back(run);
    } catch (const std::exception &) {
        // There is no memory for another thread: those that are here do all tasks, to the same bits.
    }
    run();
    for (auto &thread : pool) thread.join();
}

// M symmetric matrices of order n, rows contiguous, all float64 or all float32.
struct Matrices {
    std::vector<const void *> data;
    Index n = 0;
    bool single = false;  // float32
    Index count() const { return static_cast<Index>(data.size()); }
};

// rows[i, :] = sum_m weights[m] K_m[i, :], float64, in the order of m, for each i in index, no two alike; kernels of weight 0
// are not read. rows is (n, n); marks ready[i]. More than half of the rows are all of them, from the lower triangles.
void combine_rows(const Matrices &K, const double *weights, const Index *index, Index count, double *rows,
                  std::uint8_t *ready, int threads);

// images[m, :] += sum_k delta[k] K_m[index[k], :] for each m in kernels; images is (M, n). From the lower triangles if
// index has more than n/2 entries: half the memory is read.
void apply_rows(const Matrices &K, const Index *kernels, Index kernel_count, const Index *index, const double *delta,
                Index count, double *images, int threads);

// parts[m] = K_m[index, index], (M, count, count) of the dtype of the stack: the kernels of some of the samples.
void gather(const Matrices &K, const Index *index, Index count, void *parts, int threads);

// A box-constrained quadratic over beta, with the pairwise steps that keep 1'beta if `equality`:
//   minimise 1/2 beta'(Q + diag(shift)) beta - linear'beta + absolute |beta|_1,   lower <= beta <= upper
// Q = sum_m weights[m] K_m is read through rows that are formed when first touched.
struct Box {
    Index n;
    const double *diagonal;  // (n,) of Q + diag(shift)
    const double *lower, *upper;
    double absolute;
    bool equality;
};

struct BoxQuadratic {
    const Matrices &K;
    const double *weights;
    double *rows;         // (n, n), row i valid where ready[i]
    std::uint8_t *ready;  // (n,)
    Box box;
    int threads;  // with more than one, rows that are likely to be touched next are formed along with a missing one
};

struct SmoResult {
    Index steps;
    Index rows_formed;
    double violation;  // the largest violation of the optimality conditions that is left
};

// Sequential minimal optimisation with second-order working sets, from any feasible beta and its gradient
// (Q + diag(shift)) beta - linear; both are updated in place. Every `shrink_every` steps (never if negative) samples
// are looked for that may be left out. `poll` is called about twenty times a second; false ends the loop.
SmoResult smo(const BoxQuadratic &problem, double *beta, double *gradient, double tol, Index max_steps, Index shrink_every,
              const std::function<bool()> &poll);

// Minimise 1/2 x'Px + c'x subject to x_k >= 0 for the first `bounds` variables, Gx <= h and, unless a is null, a'x = 1,
// from any x. x becomes the solution, and `multipliers` those of x_k >= 0 and of Gx <= h. False where the numbers leave
// the range of double precision.
bool quadratic_program(const double *P, const double *c, const double *G, const double *h, const double *a, Index variables,
                       Index bounds, Index rows, double *x, double *multipliers, double tol, Index max_steps);

}  // namespace mklref
