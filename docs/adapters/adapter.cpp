// c++ -std=c++17 -O2 adapter.cpp -o adapter && ./adapter vectors/NAME solutions/NAME
#include <cmath>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
using Vector = std::vector<double>;

struct Answer { Vector dual_coef, weights; double intercept; };

// Ridge regression with one kernel, by elimination with pivots. Put your solver here.
Answer my_mkl(const std::vector<Vector>& K, const Vector& y, double C) {
    const std::size_t n = y.size();
    std::vector<Vector> A(n + 1, Vector(n + 2, 1.0));
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) A[i][j] = K[i][j] + (i == j) / C;
        A[i][n + 1] = y[i];
    }
    A[n][n] = A[n][n + 1] = 0.0;
    for (std::size_t k = 0; k <= n; ++k) {
        std::size_t best = k;
        for (std::size_t i = k; i <= n; ++i) if (std::abs(A[i][k]) > std::abs(A[best][k])) best = i;
        std::swap(A[k], A[best]);
        for (std::size_t i = 0; i <= n; ++i) {
            const double factor = i == k ? 0.0 : A[i][k] / A[k][k];
            for (std::size_t j = k; factor != 0.0 && j < n + 2; ++j) A[i][j] -= factor * A[k][j];
        }
    }
    Answer answer{Vector(n), {1.0}, A[n][n + 1] / A[n][n]};
    for (std::size_t i = 0; i < n; ++i) answer.dual_coef[i] = A[i][n + 1] / A[i][i];
    return answer;
}

// The numbers after "name": in the JSON file, one or many; a library does it better.
Vector numbers(const std::string& json, const std::string& name) {
    auto at = json.find('"' + name + "\": ");
    if (at == std::string::npos) return {};
    at += name.size() + 4;
    std::string text = json[at] == '[' ? json.substr(at + 1, json.find(']', at) - at - 1) : json.substr(at, json.find('\n', at) - at);
    for (char& c : text) if (c == ',') c = ' ';
    std::istringstream words(text);
    return {std::istream_iterator<double>(words), {}};
}

int main(int, char** arguments) {
    const std::string problem = arguments[1], solution = arguments[2];
    std::ifstream file(problem + ".json"), table(problem + ".kernels.csv");
    if (!file || !table) throw std::runtime_error(problem + ".json and .kernels.csv cannot be read");
    const std::string json(std::istreambuf_iterator<char>(file), {});
    const bool squared = json.find("\"loss\": \"squared\"") != std::string::npos;
    if (!squared || numbers(json, "shape")[0] > 1 || numbers(json, "intercept")[0] == 0 || !numbers(json, "sample_weight").empty())
        return 0;  // out of scope: no file, and it is excluded
    std::vector<Vector> K;
    for (std::string line; std::getline(table, line);) {
        for (char& c : line) if (c == ',') c = ' ';
        std::istringstream words(line);
        K.emplace_back(std::istream_iterator<double>(words), std::istream_iterator<double>());
    }
    const Answer answer = my_mkl(K, numbers(json, "y"), numbers(json, "C")[0]);
    std::ofstream out(solution + ".json");
    out << std::setprecision(17) << "{\"weights\": [" << answer.weights[0] << "], \"intercept\": " << answer.intercept << ", \"dual_coef\": [";
    for (std::size_t i = 0; i < answer.dual_coef.size(); ++i) out << (i ? ", " : "") << answer.dual_coef[i];
    out << "]}\n";
}
