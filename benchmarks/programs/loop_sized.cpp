// usage: programs_sized AMOUNT
// The loop "server" of loop_threads.c in C++: each object goes with its size, as delete of a class does.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <thread>
#include <vector>

namespace {

constexpr unsigned threads = 4, table_size = 1000;

// xorshift64* (Vigna)
std::uint64_t random_number(std::uint64_t &state) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}

struct object {
    unsigned char *bytes = nullptr;
    std::size_t size = 0;
};

struct table {
    object objects[table_size];
    std::uint64_t seed = 0, sum = 0;
};

void remove(object &o) {
    ::operator delete(o.bytes, o.size);
    o = {};
}

void serve(table &t) {
    for (unsigned n = 0; n < 20 * table_size; n++) {
        object &o = t.objects[random_number(t.seed) % table_size];
        if (o.bytes) t.sum += o.bytes[0];
        remove(o);
        o.size = 16 + random_number(t.seed) % 1000;
        o.bytes = static_cast<unsigned char *>(::operator new(o.size));
        o.bytes[0] = o.bytes[o.size - 1] = static_cast<unsigned char>(n);
    }
}

std::uint64_t serve_all(unsigned amount) {
    static table tables[threads];
    std::uint64_t sum = 0;
    for (unsigned k = 0; k < threads; k++) tables[k].seed = k + 1;
    for (unsigned round = 0; round < amount; round++) {
        std::vector<std::thread> all;
        for (table &t : tables) all.emplace_back(serve, std::ref(t));
        for (std::thread &thread : all) thread.join();
    }
    for (table &t : tables) {
        for (object &o : t.objects) remove(o);
        sum += t.sum;
    }
    return sum;
}

} // namespace

int main(int argc, char **argv) {
    unsigned long amount = argc == 2 ? std::strtoul(argv[1], nullptr, 10) : 0;
    if (amount == 0) {
        std::fputs("usage: programs_sized AMOUNT\n", stderr);
        return 2;
    }
    std::printf("%llu\n", static_cast<unsigned long long>(serve_all(static_cast<unsigned>(amount))));
}
