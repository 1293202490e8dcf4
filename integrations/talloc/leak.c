/* A program that leaks into a context on top: what tslab doctor says of it is in README.md. */
#include <talloc.h>
#include <unistd.h>

int main(void) {
    void *sessions = talloc_named_const(NULL, 0, "sessions"), *settings = talloc_named_const(NULL, 0, "settings");
    for (int i = 0; i < 500; i++) (void)talloc_asprintf(settings, "setting %d", i);
    for (unsigned request = 0;; request++) {
        void *work = talloc_new(NULL);
        for (int i = 0; i < 100; i++) (void)talloc_asprintf(work, "line %d of request %u", i, request);
        (void)talloc_asprintf(sessions, "session of request %u: %500d", request, 0); /* and never freed */
        talloc_free(work);
        usleep(500);
    }
}
