/* A search that calls itself: its states die as it returns; the puzzle is the turn, not one of its 300 levels. */
#include "common.h"

typedef struct State {
    struct State *before;
    char board[80];
} State;

FUNCTION static State *search(State *before, unsigned depth, State **all) {
    State *state = get(sizeof *state);
    state->before = *all;
    *all = state;
    memcpy(state->board, before ? before->board : "", 1);
    if (depth) {
        search(state, depth - 1, all);
        if (depth % 3 == 0) {
            search(state, depth / 3, all);
        }
    }
    return state;
}

FUNCTION static unsigned solve_puzzle(unsigned depth) {
    State *all = NULL;
    search(NULL, depth, &all);
    unsigned count = 0;
    while (all) {
        State *before = all->before;
        free(all);
        all = before;
        count++;
    }
    return count;
}

int main(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 300; i++) {
        sum += solve_puzzle(40 + random_below(40));
    }
    printf("%u\n", sum);
    return 0;
}
