/*
 * The end of the program with its last thread, beside the library's own threads. The argument is in last_thread.c.
 */
#ifndef TS_OS_LAST_THREAD_H
#define TS_OS_LAST_THREAD_H

/* Before a thread of the library's own is made: blocks all signals, which are for the program's threads. *before: the
   mask of the calling thread (a sigset_t), for behind it. */
void ts_own_signals_block(void *before);

/* So many threads more are the library's own; less: negative. A thread is there when it is counted, and is counted no
   more when it ends. */
void ts_own_threads_count(int more);

/* Each of the library's threads calls it now and then: if no thread of the program is left, the program ends. */
void ts_last_thread_look(void);

/* The leader is the thread whose id is the process's. `ts_last_thread_leads`: the calling thread is it, in a child of
   fork. The calling thread calls `begins` when its end has become certain to call `ends`. */
void ts_last_thread_leads(void);
void ts_last_thread_begins(void);
void ts_last_thread_ends(void);

#endif
