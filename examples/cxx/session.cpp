// Objects with destructors in a domain, and handles that know whether they are still there.
#include <tslab/tslab.hpp>

#include <cstdio>
#include <string>

static int open_files;

struct log_file {
    explicit log_file(const std::string &) { open_files++; }
    ~log_file() { open_files--; }
};

struct session {
    log_file *log;
    int user;
};

int main() {
    tslab::handle<session> remembered;
    {
        tslab::domain connection("connection", EPOCH_CHURN);
        auto *log = tslab::make<log_file>(connection, "a file");
        auto *s = tslab::make<session>(connection, log, 42);
        remembered = {connection, s}; // kept by somebody who does not know when the connection ends

        if (session *there = remembered.get(); !there || there->user != 42 || open_files != 1) return 1;
        tslab::destroy(connection, s); // before the connection ends
        if (remembered) return 1;
    } // ~log_file
    std::printf("%d files are open, the session is %s\n", open_files, remembered ? "there" : "gone");
    return open_files == 0 && !remembered ? 0 : 1;
}
