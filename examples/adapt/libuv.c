/* libuv outside of domains: its loop lives as long as the program. */
#define _GNU_SOURCE /* for uv.h */
#include <tslab/adapt.h>
#include <tslab/stats.h>

#include <stdio.h>
#include <uv.h>

static int ticks;

static void on_tick(uv_timer_t *timer) {
    if (++ticks == 3) uv_close((uv_handle_t *)timer, NULL);
}

int main(void) {
    if (slab_adapt_libuv(SLAB_ADAPT_OUTSIDE) != 0) return 1;
    uv_loop_t loop;
    uv_timer_t timer;
    if (uv_loop_init(&loop) != 0 || uv_timer_init(&loop, &timer) != 0 || uv_timer_start(&timer, on_tick, 0, 1) != 0)
        return 1;
    EpochDomain *request = epoch_domain_create_ex(NULL, "request", 0);
    epoch_domain_enter(request);
    uv_run(&loop, UV_RUN_DEFAULT); /* what the loop allocates in here is still not the request's */
    epoch_domain_exit(request);
    epoch_domain_destroy(request);

    SlabEpochStats stats;
    EpochId epoch = slab_adapt_epoch(&slab_adapt_home_libuv);
    if (!slab_stats_epoch(slab_allocator_default(), SLAB_ALL_CLASSES, epoch, &stats)) return 1;
    printf("libuv: %d ticks, %llu objects allocated\n", ticks, (unsigned long long)stats.allocated_objects_total);
    return uv_loop_close(&loop) == 0 && ticks == 3 && stats.allocated_objects_total > 0 ? 0 : 1;
}
