// Evaluation of kernels that are exponentials of shared distances, by blocks, and the module `mklref.kernels._evaluation`.
//
// exp(x) for x <= 0: x = k ln 2 + r with |r| <= ln(2)/2 (1 + 2^-20), k ln 2 in two parts, of which the first is exact;
// the Taylor polynomial of e^r, of degree 13 (float64) or 7 (float32), in Horner's form; 2^k by its bits. The relative
// error is at most 4 u: u of r, 1.6 u of the polynomial and less than u/8 of its truncation, with room for twice that.
// What would be below the smallest normal number times e^0.4 is 0. Plain arithmetic without branches, so that compilers
// vectorise it, and the NumPy twin (mklref/kernels/evaluation.py) has the same bits.
#include "loops.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstring>

namespace nb = nanobind;
using namespace nb::literals;
using mklref::Index;
using mklref::parallel;

namespace {

constexpr Index kColumns = 512;  // of a block: its partial sums stay in the first levels of the cache
constexpr Index kLanes = 8;  // partial sums of a dot product

template <class Real>
struct Digits;

template <>
struct Digits<double> {
    using Bits = std::int64_t;
    static constexpr int kMantissa = 52, kDegree = 13;
    static constexpr double kLowest = -708.0, kShift = 6755399441055744.0;  // 1.5 2^52: sums round to integers
    static constexpr double kLog2e = 1.4426950408889634, kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
};

template <>
struct Digits<float> {
    using Bits = std::int32_t;
    static constexpr int kMantissa = 23, kDegree = 7;
    static constexpr float kLowest = -87.0f, kShift = 12582912.0f;
    static constexpr float kLog2e = 1.44269504f, kLn2High = 0.693145751953125f, kLn2Low = 1.42860677e-06f;
};

template <class To, class From>
MKLREF_INLINE To bits_of(From x) {
    To y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}

constexpr double factorial(int k) { return k < 2 ? 1.0 : k * factorial(k - 1); }

// sum_{j >= k} r^{j - k} / j! up to the degree, in Horner's form.
template <class Real, int k = 0>
MKLREF_INLINE Real taylor(Real r) {
    constexpr Real coefficient = Real(1) / static_cast<Real>(factorial(k));
    if constexpr (k == Digits<Real>::kDegree) return coefficient;
    else return taylor<Real, k + 1>(r) * r + coefficient;
}

template <class Real>
MKLREF_INLINE Real exponential(Real given) {
    using D = Digits<Real>;
    const Real x = given < D::kLowest ? D::kLowest : given;  // NaN stays
    const Real shifted = x * D::kLog2e + D::kShift;
    const Real k = shifted - D::kShift;
    const Real r = (x - k * D::kLn2High) - k * D::kLn2Low;
    using Unsigned = std::make_unsigned_t<typename D::Bits>;
    const auto one = bits_of<Unsigned>(Real(1));
    const Real power = bits_of<Real>((bits_of<Unsigned>(shifted) << D::kMantissa) + one);
    const Real value = taylor(r) * power;
    return given < D::kLowest ? Real(0) : value;
}

template <class Real>
MKLREF_INLINE void to_squares(Real *p, Real a, const Real *b, Index n) {
    for (Index j = 0; j < n; ++j) {
        const Real d = (a + b[j]) - (p[j] + p[j]);
        p[j] = d < Real(0) ? Real(0) : d;
    }
}

template <class Real>
MKLREF_INLINE void write_one(const Real *d, Real rate, Real factor, Real *out, Index n) {
    for (Index j = 0; j < n; ++j) out[j] = factor * exponential(rate * d[j]);
}

template <class Real>
MKLREF_INLINE void add_one(const Real *d, Real rate, double weight, double *sum, Index n) {
    for (Index j = 0; j < n; ++j) sum[j] += weight * static_cast<double>(exponential(rate * d[j]));
}

// s'exp(rate d) over a block of columns, eight partial sums in a fixed order.
MKLREF_INLINE double dot_one(const double *d, double rate, const double *s, Index n) {
    double x[kColumns], partial[kLanes] = {}, sum = 0.0;
    for (Index j = 0; j < n; ++j) x[j] = exponential(rate * d[j]);
    const Index whole = n - n % kLanes;
    for (Index j = 0; j < whole; j += kLanes)
        for (Index l = 0; l < kLanes; ++l) partial[l] += s[j + l] * x[j + l];
    for (Index l = 0; l < kLanes; ++l) sum += partial[l];
    for (Index j = whole; j < n; ++j) sum += s[j] * x[j];
    return sum;
}

MKLREF_CLONES void squares_row(double *p, double a, const double *b, Index n) { to_squares(p, a, b, n); }
MKLREF_CLONES void squares_row(float *p, float a, const float *b, Index n) { to_squares(p, a, b, n); }
MKLREF_CLONES void write_row(const double *d, double rate, double factor, double *out, Index n) { write_one(d, rate, factor, out, n); }
MKLREF_CLONES void write_row(const float *d, float rate, float factor, float *out, Index n) { write_one(d, rate, factor, out, n); }
MKLREF_CLONES void add_row(const double *d, double rate, double weight, double *sum, Index n) { add_one(d, rate, weight, sum, n); }
MKLREF_CLONES void add_row(const float *d, float rate, double weight, double *sum, Index n) { add_one(d, rate, weight, sum, n); }
MKLREF_CLONES double dot_row(const double *d, double rate, const double *s, Index n) { return dot_one(d, rate, s, n); }

using Any2 = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Any3 = nb::ndarray<nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Any1 = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Doubles1 = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Doubles2 = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Given2 = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class Array>
Index size(const Array &array, std::size_t axis) {
    return static_cast<Index>(array.shape(axis));
}

void require(bool condition, const char *message) {
    if (!condition) throw nb::value_error(message);
}

// Calls run(float()) or run(double()) for the type of an array.
template <class Array, class Run>
void by_type(const Array &array, const Run &run) {
    if (array.dtype() == nb::dtype<double>()) return run(double());
    require(array.dtype() == nb::dtype<float>(), "the arrays must be float32 or float64");
    run(float());
}

template <class Array, class Other>
void require_alike(const Array &one, const Other &other) {
    require(one.dtype() == other.dtype(), "the arrays must have one dtype");
}

}  // namespace

NB_MODULE(_evaluation, m) {
    nb::set_leak_warnings(false);
    m.doc() = "Compiled evaluation of kernels; mklref.kernels.evaluation states each function in NumPy.";

    m.def(
        "squares",
        [](Any2 products, Any1 rows, Any1 columns, int threads) {
            const Index k = size(products, 0), n = size(products, 1);
            require(size(rows, 0) == k && size(columns, 0) == n, "rows must be (k,) and columns (n,)");
            require_alike(products, rows), require_alike(products, columns);
            by_type(products, [&](auto zero) {
                using Real = decltype(zero);
                auto *p = static_cast<Real *>(products.data());
                const auto *a = static_cast<const Real *>(rows.data()), *b = static_cast<const Real *>(columns.data());
                nb::gil_scoped_release nogil;
                parallel(k, k * n, threads, [&](Index i) { squares_row(p + i * n, a[i], b, n); });
            });
        },
        "products"_a.noconvert(), "rows"_a.noconvert(), "columns"_a.noconvert(), "threads"_a);

    m.def(
        "exponentials",
        [](Any2 squares, Doubles1 rates, Doubles1 factors, Any3 out, int threads) {
            const Index k = size(squares, 0), n = size(squares, 1), M = size(rates, 0);
            require(size(factors, 0) == M, "rates and factors must have one length");
            require(size(out, 0) == M && size(out, 1) == k && size(out, 2) == n, "out must be (M, k, n)");
            require_alike(squares, out);
            by_type(squares, [&](auto zero) {
                using Real = decltype(zero);
                const auto *d = static_cast<const Real *>(squares.data());
                auto *x = static_cast<Real *>(out.data());
                nb::gil_scoped_release nogil;
                parallel(k, M * k * n, threads, [&](Index i) {
                    for (Index from = 0; from < n; from += kColumns)
                        for (Index m = 0; m < M; ++m)
                            write_row(d + i * n + from, static_cast<Real>(rates.data()[m]), static_cast<Real>(factors.data()[m]),
                                      x + (m * k + i) * n + from, std::min(kColumns, n - from));
                });
            });
        },
        "squares"_a.noconvert(), "rates"_a.noconvert(), "factors"_a.noconvert(), "out"_a.noconvert(), "threads"_a);

    m.def(
        "exponential_forms",
        [](Given2 squares, Doubles1 rates, Doubles1 v, Doubles2 out, int threads) {
            const Index n = size(squares, 0), M = size(rates, 0);
            require(size(squares, 1) == n && size(v, 0) == n && size(out, 0) == n && size(out, 1) == M,
                    "squares must be (n, n), v (n,), rates (M,) and out (n, M)");
            const double *d = squares.data(), *s = v.data();
            double *sums = out.data();
            nb::gil_scoped_release nogil;
            parallel(n, M * n * n / 2, threads, [&](Index i) {
                for (Index m = 0; m < M; ++m) sums[i * M + m] = 0.5 * s[i] * exponential(rates.data()[m] * d[i * n + i]);
                for (Index from = i + 1; from < n; from += kColumns)
                    for (Index m = 0; m < M; ++m)
                        sums[i * M + m] += dot_row(d + i * n + from, rates.data()[m], s + from, std::min(kColumns, n - from));
                for (Index m = 0; m < M; ++m) sums[i * M + m] *= 2.0 * s[i];
            });
        },
        "squares"_a.noconvert(), "rates"_a.noconvert(), "v"_a.noconvert(), "out"_a.noconvert(), "threads"_a);

    m.def(
        "exponential_sum",
        [](Any2 squares, Doubles1 rates, Doubles1 weights, Doubles2 out, int threads) {
            const Index k = size(squares, 0), n = size(squares, 1), M = size(rates, 0);
            require(size(weights, 0) == M, "rates and weights must have one length");
            require(size(out, 0) == k && size(out, 1) == n, "out must be (k, n)");
            by_type(squares, [&](auto zero) {
                using Real = decltype(zero);
                const auto *d = static_cast<const Real *>(squares.data());
                double *x = out.data();
                nb::gil_scoped_release nogil;
                parallel(k, M * k * n, threads, [&](Index i) {
                    for (Index from = 0; from < n; from += kColumns)
                        for (Index m = 0; m < M; ++m)
                            add_row(d + i * n + from, static_cast<Real>(rates.data()[m]), weights.data()[m], x + i * n + from,
                                    std::min(kColumns, n - from));
                });
            });
        },
        "squares"_a.noconvert(), "rates"_a.noconvert(), "weights"_a.noconvert(), "out"_a.noconvert(), "threads"_a);

    m.def(
        "exponential_dots",
        [](Any2 squares, Doubles1 rates, Doubles1 factors, Doubles1 v, Doubles2 images, int threads) {
            const Index k = size(squares, 0), n = size(squares, 1), M = size(rates, 0);
            require(size(v, 0) == k, "v must be (k,)");
            require(size(factors, 0) == M, "rates and factors must have one length");
            require(size(images, 0) == M && size(images, 1) == n, "images must be (M, n)");
            by_type(squares, [&](auto zero) {
                using Real = decltype(zero);
                const auto *d = static_cast<const Real *>(squares.data());
                double *x = images.data();
                nb::gil_scoped_release nogil;
                parallel((n + kColumns - 1) / kColumns, M * k * n, threads, [&](Index block) {
                    const Index from = block * kColumns, count = std::min(kColumns, n - from);
                    for (Index i = 0; i < k; ++i)
                        for (Index m = 0; m < M; ++m)
                            add_row(d + i * n + from, static_cast<Real>(rates.data()[m]), factors.data()[m] * v.data()[i], x + m * n + from, count);
                });
            });
        },
        "squares"_a.noconvert(), "rates"_a.noconvert(), "factors"_a.noconvert(), "v"_a.noconvert(), "images"_a.noconvert(), "threads"_a);
}
