/*
 * The places of the connections. A new one always gets a place; when there are more than HTTP_PLACES, the slowest
 * loses its own: first a client that has not yet sent a whole request, then one with a connection that was answered
 * before, then one that has taken an answer for a second and more; of each kind, the one that has been at it longest.
 * So clients that send half a request and stop keep nobody waiting, however many they are.
 *
 * All on the server's thread, except where it is said.
 */
#ifndef TS_HTTP_PLACES_H
#define TS_HTTP_PLACES_H

#include <microhttpd.h>

#define HTTP_PLACES 128u
/* Connections that the server accepts: one that has lost its place is still there until the server has looked at it. */
#define HTTP_CONNECTIONS (HTTP_PLACES + 64u)

/* For MHD_OPTION_NOTIFY_CONNECTION. */
void http_places_change(void *unused, struct MHD_Connection *connection, void **place,
                        enum MHD_ConnectionNotificationCode what);
/* A request has come whole as far as its head; its answer has been taken, or cut off. */
void http_places_asked(struct MHD_Connection *connection);
void http_places_answered(struct MHD_Connection *connection);
/* Requests that are being answered. Any thread. */
unsigned http_places_under_way(void);
/* After the end of a server. */
void http_places_reset(void);
/* In a child of fork: closes its copies of the connections, which are the parent's. */
void http_places_in_child(void);

#endif
