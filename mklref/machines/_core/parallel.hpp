// Tasks on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace mklref {

constexpr std::int64_t kSmallWork = 1 << 19;  // entries below which a second thread costs more than it saves

// Run task(0), ..., task(count - 1) on up to `threads` threads; each task writes to its own memory.
template <class Task>
void parallel(std::int64_t count, std::int64_t work, int threads, const Task &task) {
    const int used = work < kSmallWork ? 1 : static_cast<int>(std::min<std::int64_t>(threads, count));
    if (used <= 1) {
        for (std::int64_t k = 0; k < count; ++k) task(k);
        return;
    }
    std::atomic<std::int64_t> next{0};
    auto run = [&] {
        for (std::int64_t k = next++; k < count; k = next++) task(k);
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

}  // namespace mklref
