// The Python boundary: shapes and types are checked here, the GIL is released, signals are polled.
#include "loops.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <chrono>
#include <optional>
#include <string>

namespace nb = nanobind;
using namespace nb::literals;
using mklref::Index;

using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstVector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstMatrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Flags = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const Index, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

void require(bool condition, const char *message) {
    if (!condition) throw nb::value_error(message);
}

void require_order(const Matrix &rows, const Flags &ready, Index n) {
    require(static_cast<Index>(rows.shape(0)) == n && static_cast<Index>(rows.shape(1)) == n, "rows must be (n, n)");
    require(static_cast<Index>(ready.shape(0)) == n, "ready must be (n,)");
}

void require_indices(const Indices &index, Index bound) {
    for (std::size_t k = 0; k < index.shape(0); ++k)
        require(index.data()[k] >= 0 && index.data()[k] < bound, "an index is out of range");
}

// Keeps the arrays alive and their addresses at hand.
struct Stack {
    mklref::Matrices matrices;
    std::vector<nb::object> owners;

    explicit Stack(const nb::sequence &arrays) {
        for (nb::handle item : arrays) {
            nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu> array;
            require(nb::try_cast(item, array, false), "every matrix must be a C-contiguous array of two dimensions");
            const bool single = array.dtype() == nb::dtype<float>();
            require(single || array.dtype() == nb::dtype<double>(), "every matrix must be float32 or float64");
            const Index n = static_cast<Index>(array.shape(0));
            if (matrices.data.empty()) matrices.n = n, matrices.single = single;
            require(n == matrices.n && static_cast<Index>(array.shape(1)) == n, "every matrix must be (n, n)");
            require(single == matrices.single, "the matrices must have one dtype");
            matrices.data.push_back(array.data());
            owners.push_back(nb::borrow(item));
        }
        require(!matrices.data.empty(), "there must be at least one matrix");
    }
};

// False once `seconds` have passed; raises KeyboardInterrupt on Ctrl-C.
std::function<bool()> poll_until(double seconds) {
    const auto start = std::chrono::steady_clock::now();
    return [=] {
        {
            nb::gil_scoped_acquire gil;
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
        }
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds;
    };
}

}  // namespace

NB_MODULE(_loops, m) {
    nb::set_leak_warnings(false);  // tracebacks of interrupted threads may outlive the module
    m.doc() = "Compiled loops of the kernel machines; mklref.machines.twin states each of them in NumPy.";

    nb::class_<Stack>(m, "Stack", "M symmetric matrices (n, n) in memory, float64 or float32, referred to.")
        .def(nb::init<nb::sequence>(), "matrices"_a);

    m.def(
        "combine_rows",
        [](const Stack &stack, ConstVector weights, Indices index, Matrix rows, Flags ready, int threads) {
            const auto &K = stack.matrices;
            require(static_cast<Index>(weights.shape(0)) == K.count(), "weights must be (M,)");
            require_order(rows, ready, K.n);
            require_indices(index, K.n);
            nb::gil_scoped_release nogil;
            mklref::combine_rows(K, weights.data(), index.data(), static_cast<Index>(index.shape(0)), rows.data(),
                                 ready.data(), threads);
        },
        "stack"_a, "weights"_a.noconvert(), "index"_a.noconvert(), "rows"_a.noconvert(), "ready"_a.noconvert(), "threads"_a);

    m.def(
        "apply_rows",
        [](const Stack &stack, Indices kernels, Indices index, ConstVector delta, Matrix images, int threads) {
            const auto &K = stack.matrices;
            require(static_cast<Index>(images.shape(0)) == K.count() && static_cast<Index>(images.shape(1)) == K.n, "images must be (M, n)");
            require(index.shape(0) == delta.shape(0), "index and delta must have one length");
            require_indices(index, K.n);
            require_indices(kernels, K.count());
            nb::gil_scoped_release nogil;
            mklref::apply_rows(K, kernels.data(), static_cast<Index>(kernels.shape(0)), index.data(), delta.data(),
                               static_cast<Index>(index.shape(0)), images.data(), threads);
        },
        "stack"_a, "kernels"_a.noconvert(), "index"_a.noconvert(), "delta"_a.noconvert(), "images"_a.noconvert(), "threads"_a);

    m.def(
        "gather",
        [](const Stack &stack, Indices index, nb::ndarray<nb::ndim<3>, nb::c_contig, nb::device::cpu> parts, int threads) {
            const auto &K = stack.matrices;
            require(static_cast<Index>(parts.shape(0)) == K.count() && parts.shape(1) == index.shape(0) && parts.shape(2) == index.shape(0),
                    "parts must be (M, k, k)");
            require(parts.dtype() == (K.single ? nb::dtype<float>() : nb::dtype<double>()), "parts must have the dtype of the stack");
            require_indices(index, K.n);
            nb::gil_scoped_release nogil;
            mklref::gather(K, index.data(), static_cast<Index>(index.shape(0)), parts.data(), threads);
        },
        "stack"_a, "index"_a.noconvert(), "parts"_a.noconvert(), "threads"_a);

    m.def(
        "smo",
        [](const Stack &stack, ConstVector weights, Matrix rows, Flags ready, ConstVector diagonal, ConstVector lower,
           ConstVector upper, double absolute, bool equality, Vector beta, Vector gradient, double tol, Index max_steps, double max_seconds,
           int threads, Index shrink_every) {
            const auto &K = stack.matrices;
            const auto n = static_cast<std::size_t>(K.n);
            require(static_cast<Index>(weights.shape(0)) == K.count(), "weights must be (M,)");
            require_order(rows, ready, K.n);
            require(diagonal.shape(0) == n && lower.shape(0) == n && upper.shape(0) == n && beta.shape(0) == n && gradient.shape(0) == n,
                    "diagonal, lower, upper, beta and gradient must be (n,)");
            const mklref::Box box{K.n, diagonal.data(), lower.data(), upper.data(), absolute, equality};
            const mklref::BoxQuadratic problem{K, weights.data(), rows.data(), ready.data(), box, threads};
            nb::gil_scoped_release nogil;
            const auto result = mklref::smo(problem, beta.data(), gradient.data(), tol, max_steps, shrink_every, poll_until(max_seconds));
            return std::make_tuple(result.steps, result.rows_formed, result.violation);
        },
        "stack"_a, "weights"_a.noconvert(), "rows"_a.noconvert(), "ready"_a.noconvert(), "diagonal"_a.noconvert(),
        "lower"_a.noconvert(), "upper"_a.noconvert(), "absolute"_a, "equality"_a, "beta"_a.noconvert(),
        "gradient"_a.noconvert(), "tol"_a, "max_steps"_a, "max_seconds"_a,
        "threads"_a = 1, "shrink_every"_a = 500);

    m.def(
        "quadratic_program",
        [](ConstMatrix P, ConstVector c, Index bounds, ConstMatrix G, ConstVector h, std::optional<ConstVector> a, Vector x, Vector u,
           double tol, Index max_steps) {
            const auto n = c.shape(0), l = h.shape(0), m = static_cast<std::size_t>(bounds);
            require(bounds >= 0 && m <= n && m + l > 0, "there must be inequalities, and no more bounds than variables");
            require(P.shape(0) == n && P.shape(1) == n, "P must be (n, n)");
            require(G.shape(0) == l && G.shape(1) == n, "G must be (l, n)");
            require(x.shape(0) == n && (!a || a->shape(0) == n), "x and a must be (n,)");
            require(u.shape(0) == m + l, "u must be (bounds + l,)");
            nb::gil_scoped_release nogil;
            return mklref::quadratic_program(P.data(), c.data(), G.data(), h.data(), a ? a->data() : nullptr, static_cast<Index>(n),
                                             bounds, static_cast<Index>(l), x.data(), u.data(), tol, max_steps);
        },
        "P"_a, "c"_a, "bounds"_a, "G"_a, "h"_a, "a"_a.none(), "x"_a.noconvert(), "u"_a.noconvert(), "tol"_a, "max_steps"_a);
}
