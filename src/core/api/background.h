/* The thread of the option `background`. */
#ifndef TS_API_BACKGROUND_H
#define TS_API_BACKGROUND_H

/* Makes it, if there is none. What fails is told of once, and missed by nobody. */
void ts_background_start(void);
/* The next call of that, by this thread, only notes it: the thread is made when the process has another. */
void ts_background_wait_for_threads(void);
/* The program has made a thread. Holding nothing. */
void ts_background_thread_made(void);

#endif
