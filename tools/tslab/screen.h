/* The terminal of tslab top: taken, and given back however the program ends. */
#ifndef TSLAB_SCREEN_H
#define TSLAB_SCREEN_H

#include <stdbool.h>

/* Keys come one by one from here on, and the shell's screen is kept. false: errno says why not. */
bool screen_begin(void);
void screen_give_back(void);

#endif
