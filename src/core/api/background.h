/* The thread of the option `background`. */
#ifndef TS_API_BACKGROUND_H
#define TS_API_BACKGROUND_H

/* Makes the thread, if there is none. A failure is reported once, and changes nothing else. */
void ts_background_start(void);
/* Makes the calling thread's next ts_background_start wait: the thread is made when the program has a second one. */
void ts_background_wait_for_threads(void);
/* The program has made a thread. Caller holds no lock. */
void ts_background_thread_made(void);

#endif
