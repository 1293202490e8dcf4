/* The thread of the option `background`. */
#ifndef TS_API_BACKGROUND_H
#define TS_API_BACKGROUND_H

/* Makes it, if there is none. What fails is told of once, and missed by nobody. */
void ts_background_start(void);

#endif
