/* The answer to a fault: the caller's function first, then the program's own. */
#define _GNU_SOURCE
#include "os/os.h"

#include <signal.h>

static bool (*on_fault)(const void *); /* these two are written before the handler is there */
static struct sigaction before_fault;

static void take_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    if (!on_fault(info->si_addr)) (void)sigaction(number, &before_fault, NULL);
}

bool ts_os_on_fault(bool (*fn)(const void *at)) {
    struct sigaction action = {.sa_sigaction = take_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    on_fault = fn;
    return sigaction(SIGSEGV, NULL, &before_fault) == 0 && sigaction(SIGSEGV, &action, NULL) == 0;
}
