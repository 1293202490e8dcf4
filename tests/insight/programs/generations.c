/* Generations: events live for the hour that they belong to, and each hour ends at once two hours later. A call of
   log_event has no end of anything in it; rotate_hour frees the objects of some 2,000 earlier calls. */
#include "common.h"

typedef struct Event {
    struct Event *next;
    char text[100];
} Event;

static Event *hours[3];

FUNCTION static void log_event(unsigned hour) {
    Event *event = get(sizeof *event);
    event->next = hours[hour % 3];
    hours[hour % 3] = event;
}

FUNCTION static unsigned rotate_hour(unsigned hour) {
    unsigned count = 0;
    Event *event = hours[(hour + 1) % 3];
    hours[(hour + 1) % 3] = NULL;
    while (event) {
        Event *next = event->next;
        free(event);
        event = next;
        count++;
    }
    return count;
}

int main(void) {
    unsigned sum = 0;
    for (unsigned hour = 0; hour < 60; hour++) {
        for (unsigned i = 0; i < 2000; i++) {
            log_event(hour);
        }
        sum += rotate_hour(hour);
    }
    printf("%u\n", sum);
    return 0;
}
