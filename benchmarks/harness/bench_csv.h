/*
 * A file of results that is whole or not there: written under another name and renamed when it is complete. One at a
 * time. The unfinished file of a program that ends before, or is interrupted, is removed.
 */
#ifndef BENCH_CSV_H
#define BENCH_CSV_H

#include <signal.h>
#include <stdio.h>
#include <sys/types.h>

/* A process that has to end too when this one is interrupted; 0: none. */
extern volatile sig_atomic_t bench_csv_child;

/* NULL for path NULL. Dies with BENCH_EXIT_USAGE, naming path, if it cannot be written: so before anything is
   measured. */
FILE *bench_csv_open(const char *program, const char *path);
/* Dies with BENCH_EXIT_USAGE if the file could not be written. file NULL: nothing. */
void bench_csv_close(FILE *file);

#endif
