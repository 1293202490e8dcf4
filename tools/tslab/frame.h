/* A frame of tslab top: the epochs of a program by label. */
#ifndef TSLAB_FRAME_H
#define TSLAB_FRAME_H

#include "advice/several.h"

#include <sys/types.h>

typedef enum frame_order { BY_BYTES, BY_OBJECTS, BY_AGE, BY_LABEL, ORDERS } frame_order;
extern const char *const FRAME_ORDERS[]; /* their names */

typedef struct frame {
    ts_sink out;
    unsigned rows, columns, used;
    bool colours;
} frame;

/* files_of: the process in whose file system the program's files are, 0: this one's. note: behind the second line. */
void frame_draw(frame *f, const ts_views *views, frame_order order, pid_t files_of, const char *note);

#endif
