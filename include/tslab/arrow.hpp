/*
 * Apache Arrow's memory pool on a domain (Arrow 13 and later). Header only; needs Arrow's own headers.
 *
 *     tslab::domain query("query");
 *     tslab::arrow_pool pool(query);
 *     arrow::Int64Builder builder(&pool);
 *
 * Buffers lie in the domain, from any thread, entered or not: statistics, limit and batch free include them. They know
 * their pool: buffers end before the pool, and the pool before the domain, or with it by tslab::make.
 *
 * No memory, or the domain's limit is met: Status::OutOfMemory, and nothing has changed. A domain that is closed or has
 * ended, a negative size, an alignment that is no power of two: Status::Invalid. A free is checked as slab_free().
 */
#ifndef TSLAB_ARROW_HPP
#define TSLAB_ARROW_HPP

#include <tslab/tslab.hpp>

#include <arrow/memory_pool.h>
#include <arrow/status.h>

#include <atomic>
#include <string>

namespace tslab {

/* Any thread may use it. The sums are of this pool alone; their counters are relaxed, as each is right by itself. */
class arrow_pool final : public arrow::MemoryPool {
  public:
    explicit arrow_pool(domain &d) noexcept : allocator_(d.allocator()), epoch_(d.epoch()) {}
    arrow_pool(const arrow_pool &) = delete;
    arrow_pool &operator=(const arrow_pool &) = delete;

    using arrow::MemoryPool::Allocate;
    using arrow::MemoryPool::Free;
    using arrow::MemoryPool::Reallocate;

    arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t **out) override {
        if (!is_good(size, alignment)) return bad(size, alignment);
        errno = 0;
        void *p =
            slab_aligned_epoch(allocator_, static_cast<std::size_t>(alignment), static_cast<std::size_t>(size), epoch_);
        if (p == nullptr) return refusal(size);
        *out = static_cast<uint8_t *>(p);
        count(size);
        return arrow::Status::OK();
    }
    /* The buffer stays in its domain, wherever the pool's is by now. */
    arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment, uint8_t **buffer) override {
        if (*buffer == nullptr) return Allocate(new_size, alignment, buffer);
        if (!is_good(new_size, alignment)) return bad(new_size, alignment);
        errno = 0;
        void *p = slab_realloc_aligned(allocator_, *buffer, static_cast<std::size_t>(alignment),
                                       static_cast<std::size_t>(new_size));
        if (p == nullptr) return refusal(new_size);
        *buffer = static_cast<uint8_t *>(p);
        count(new_size - old_size);
        return arrow::Status::OK();
    }
    void Free(uint8_t *buffer, int64_t size, int64_t) override {
        if (buffer != nullptr && slab_free(allocator_, buffer)) bytes_.fetch_sub(size, std::memory_order_relaxed);
    }
    void ReleaseUnused() override { (void)slab_trim(allocator_); }

    int64_t bytes_allocated() const override { return bytes_.load(std::memory_order_relaxed); }
    int64_t max_memory() const override { return most_.load(std::memory_order_relaxed); }
    int64_t total_bytes_allocated() const override { return total_.load(std::memory_order_relaxed); }
    int64_t num_allocations() const override { return calls_.load(std::memory_order_relaxed); }
    std::string backend_name() const override { return "tslab"; }

  private:
    static bool is_good(int64_t size, int64_t alignment) noexcept {
        return size >= 0 && alignment > 0 && (alignment & (alignment - 1)) == 0;
    }
    static arrow::Status bad(int64_t size, int64_t alignment) {
        return arrow::Status::Invalid("tslab: a buffer of ", size, " bytes, aligned to ", alignment);
    }
    /* Of a call that has set errno. */
    static arrow::Status refusal(int64_t size) {
        if (errno == ENOMEM) return arrow::Status::OutOfMemory("tslab: no memory for ", size, " bytes in the domain");
        return arrow::Status::Invalid("tslab: the domain takes no buffers, or the buffer is none of it");
    }
    void count(int64_t more) noexcept {
        int64_t bytes = bytes_.fetch_add(more, std::memory_order_relaxed) + more;
        int64_t most = most_.load(std::memory_order_relaxed);
        while (bytes > most && !most_.compare_exchange_weak(most, bytes, std::memory_order_relaxed)) {
        }
        if (more > 0) total_.fetch_add(more, std::memory_order_relaxed);
        calls_.fetch_add(1, std::memory_order_relaxed);
    }

    SlabAllocator *allocator_;
    EpochId epoch_;
    std::atomic<int64_t> bytes_{0}, most_{0}, total_{0}, calls_{0};
};

} // namespace tslab

#endif
