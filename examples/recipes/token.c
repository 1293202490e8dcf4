/* A token that a client keeps: a handle, which is refused for ever once its session has ended. */
#include <inttypes.h>
#include <stdio.h>

#include <tslab/tslab.h>

typedef struct Session {
    int visits;
} Session;

int main(void) {
    SlabAllocator *allocator = slab_allocator_default();
    EpochId sessions = epoch_open(allocator, "sessions", EPOCH_CHURN);
    SlabHandle token;
    Session *session = alloc_obj_epoch(allocator, sizeof *session, sessions, &token);
    if (!session) return 1;
    session->visits = 1;
    printf("the client gets %016" PRIx64 "\n", token);

    Session *found = slab_handle_get(allocator, token);
    if (!found || found->visits != 1) return 1;
    if (!free_obj(allocator, token)) return 1;                                     /* logged out */
    if (slab_handle_get(allocator, token) || free_obj(allocator, token)) return 1; /* stale: NULL, false, no harm */
    puts("the token is refused now");
    return epoch_destroy(allocator, sessions) ? 0 : 1;
}
