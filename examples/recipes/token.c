/* A session that a client names by a secret: a random key of 128 bits, which the server maps to the session's handle. */
#include <stdio.h>
#include <sys/random.h>

#include <tslab/tslab.h>

enum { KEY_BYTES = 16, LOGINS = 100 };

typedef struct Session {
    int visits;
} Session;

typedef struct Login {
    unsigned char key[KEY_BYTES]; /* the client has it too, and nobody guesses it */
    SlabHandle session;           /* never leaves the server */
} Login;

static Login logins[LOGINS];

static const unsigned char *log_in(SlabAllocator *allocator, EpochId sessions) {
    for (Login *l = logins; l < logins + LOGINS; l++) {
        if (slab_handle_get(allocator, l->session))
            continue; /* in use; the place of a session that has ended is free */
        if (getrandom(l->key, KEY_BYTES, 0) != KEY_BYTES) return NULL;
        Session *session = alloc_obj_epoch(allocator, sizeof *session, sessions, &l->session);
        if (!session) return NULL;
        session->visits = 0;
        return l->key;
    }
    return NULL;
}

/* The time that it takes says nothing of where the keys differ. */
static int same(const unsigned char *a, const unsigned char *b) {
    unsigned char differs = 0;
    for (int i = 0; i < KEY_BYTES; i++) differs |= a[i] ^ b[i];
    return !differs;
}

static SlabHandle find(const unsigned char *key) {
    SlabHandle found = SLAB_HANDLE_NONE;
    for (int i = 0; i < LOGINS; i++)
        if (logins[i].session && same(logins[i].key, key)) found = logins[i].session;
    return found;
}

int main(void) {
    SlabAllocator *allocator = slab_allocator_default();
    EpochId sessions = epoch_open(allocator, "sessions", EPOCH_CHURN);
    const unsigned char *key = log_in(allocator, sessions);
    if (!key) return 1;
    fputs("the client gets ", stdout);
    for (int i = 0; i < KEY_BYTES; i++) printf("%02x", key[i]);
    putchar('\n');

    Session *session = slab_handle_get(allocator, find(key)); /* NULL: no such key, or its session has ended */
    if (!session) return 1;
    session->visits++;

    if (!free_obj(allocator, find(key))) return 1;       /* logged out */
    if (slab_handle_get(allocator, find(key))) return 1; /* stale: NULL, also when the place has another object */
    if (free_obj(allocator, find(key))) return 1;        /* stale: false, no harm */
    puts("the key finds nothing now");
    return epoch_destroy(allocator, sessions) ? 0 : 1;
}
