/*
 * Makes a failing program small: delta debugging over its operations, each attempt in a forked child, so that
 * a crash, an endless loop and a wrong answer are all the same failure.
 */
#ifndef SUP_SHRINK_H
#define SUP_SHRINK_H

#include "program.h"

/* Whether the program fails in a child of its own. */
bool shrink_fails(const struct prog_op *ops, size_t count);

/* Shrinks a program that fails, in place, for at most `seconds`. Returns the new count. */
size_t shrink_program(struct prog_op *ops, size_t count, double seconds);

/* Runs the program in a child and prints the calls it makes, up to the one that fails, as C on stderr. */
void shrink_print(const struct prog_op *ops, size_t count);

#endif
