/* A library whose handlers of fork hold a mutex meanwhile. It is initialised before all others (initfirst), and so
   registers them first. */
#include <pthread.h>

pthread_mutex_t elder_mutex = PTHREAD_MUTEX_INITIALIZER;

static void lock(void) { (void)pthread_mutex_lock(&elder_mutex); }
static void unlock(void) { (void)pthread_mutex_unlock(&elder_mutex); }

__attribute__((constructor)) static void start(void) { (void)pthread_atfork(lock, unlock, unlock); }
