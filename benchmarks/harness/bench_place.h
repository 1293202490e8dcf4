/*
 * Where results go: a file that is whole or not there, written under another name beside it and renamed when it is
 * complete; or a device or a pipe, which is written to as it is.
 */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

#include <limits.h>
#include <stdbool.h>

typedef struct bench_place {
    char path[PATH_MAX];           /* the replaced file: of a symbolic link its target */
    char temporary[PATH_MAX + 32]; /* empty: nothing, it is written to directly */
} bench_place;

/* A descriptor for writing; -1 with errno, before anything is measured. */
int bench_place_open(bench_place *place, const char *path);
/* All is written and closed: the file gets its name. false with errno. */
bool bench_place_commit(bench_place *place);
/* Removes the file under the other name; in a signal handler too. */
void bench_place_drop(const bench_place *place);

/* Sets the handler of signals that end a program from outside, but for signals that it was started to ignore
   (nohup). */
void bench_on_interruption(void (*handler)(int number));

#endif
