/* The tree of stacks, with a function for each node: which nodes are sites of one instance (turns.h). */
#ifndef ADVISE_TREE_H
#define ADVISE_TREE_H

#include "advise/turns.h"

enum { TREE_DEPTH = 512 }; /* frames of a stack, innermost first, that are looked at */

typedef struct stack_tree {
    trace *t;
    uint32_t nodes;     /* numbers are 1 to nodes - 1 */
    uint32_t *function; /* by node; becomes turns.function_of */
    uint32_t *instance; /* by node: the first node that is a site of the same instance; 0: an inner call of a function
                             that is already on the stack, and so no instance of its own */
    turn_function *functions;
    size_t function_count;
} stack_tree;

/* false: no memory. */
bool tree_make(stack_tree *r, trace *t);
void tree_free(stack_tree *r);
/* Whether a node is in the C library. */
bool tree_is_libc(const stack_tree *r, uint32_t node);
/* The nodes of a stack, outermost first. Returns how many. */
size_t tree_path(const stack_tree *r, uint32_t stack, uint32_t path[TREE_DEPTH]);

#endif
