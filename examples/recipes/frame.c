/* Memory of a frame: emptied at its end, used again in the next. */
#include <stdint.h>
#include <stdio.h>

#include <tslab/tslab.h>

int main(void) {
    EpochDomain *frame = epoch_domain_create_ex(NULL, "frame", 0);
    if (!frame || !epoch_domain_enter(frame)) return 1;
    for (int number = 0; number < 100; number++) {
        for (int i = 0; i < 1000; i++)
            if (!slab_alloc(200)) return 1;
        epoch_domain_reset(frame, SIZE_MAX); /* empty; all of its memory stays retained for the next frame */
    }
    puts("100 frames, one domain");
    epoch_domain_exit(frame);
    epoch_domain_destroy(frame);
    return 0;
}
