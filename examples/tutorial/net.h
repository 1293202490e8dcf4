/* The sockets of the tutorial's server. Nothing here is about memory. */
#ifndef TUTORIAL_NET_H
#define TUTORIAL_NET_H

#include <stdbool.h>
#include <stddef.h>

#define LINE_BYTES 4096

/* Listens on 127.0.0.1, at the port of the first argument (7000 without one), and says so. */
int net_listen(int argc, char **argv);
int net_accept(int listener);
/* A line without its end. false: the client is gone. Longer lines are cut. */
bool net_read_line(int client, char line[LINE_BYTES]);
void net_write_line(int client, const char *line);

#endif
