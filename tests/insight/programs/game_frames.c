/* Frames of a game: draw commands and contacts die with the frame, entities live for many frames. */
#include "common.h"

enum { ENTITIES = 500 };
static void *entities[ENTITIES];

FUNCTION static unsigned collide(void) {
    void *contacts[60];
    for (unsigned i = 0; i < 60; i++) {
        contacts[i] = get(56);
    }
    unsigned sum = 0;
    for (unsigned i = 0; i < 60; i++) {
        sum += *(unsigned char *)contacts[i];
        free(contacts[i]);
    }
    return sum;
}

FUNCTION static void record_commands(void **commands, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        commands[i] = get(80 + random_below(100));
    }
}

FUNCTION static void spawn(void) {
    unsigned i = random_below(ENTITIES);
    free(entities[i]);
    entities[i] = get(256);
}

FUNCTION static unsigned run_frame(void) {
    void *commands[150];
    unsigned sum = collide();
    record_commands(commands, 150);
    if (random_below(3) == 0) {
        spawn();
    }
    for (unsigned i = 0; i < 150; i++) {
        free(commands[i]);
    }
    return sum;
}

int main(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < ENTITIES; i++) {
        entities[i] = get(256);
    }
    for (unsigned i = 0; i < 600; i++) {
        sum += run_frame();
    }
    printf("%u\n", sum);
    return 0;
}
