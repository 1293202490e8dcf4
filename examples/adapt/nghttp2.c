/* HTTP/2 sessions in the domains of their connections: a client asks, and a server on the same thread gets it. */
#include <tslab/adapt.h>

#include <nghttp2/nghttp2.h>
#include <stdio.h>

static int headers_seen;

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
                     const uint8_t *value, size_t value_bytes, uint8_t flags, void *data) {
    (void)session, (void)frame, (void)name, (void)name_bytes, (void)value, (void)value_bytes, (void)flags, (void)data;
    headers_seen++;
    return 0;
}

#define HEADER(name, value) \
    { (uint8_t *)name, (uint8_t *)value, sizeof name - 1, sizeof value - 1, NGHTTP2_NV_FLAG_NONE }

int main(void) {
    EpochDomain *connection[2] = {epoch_domain_create_ex(NULL, "client", EPOCH_CHURN),
                                  epoch_domain_create_ex(NULL, "server", EPOCH_CHURN)};
    nghttp2_mem client_memory = SLAB_ADAPT_NGHTTP2(connection[0]), server_memory = SLAB_ADAPT_NGHTTP2(connection[1]);
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *client, *server;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) return 1; /* of malloc: for all sessions */
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    if (nghttp2_session_client_new3(&client, callbacks, NULL, NULL, &client_memory) != 0) return 1;
    if (nghttp2_session_server_new3(&server, callbacks, NULL, NULL, &server_memory) != 0) return 1;

    const nghttp2_nv request[] = {HEADER(":method", "GET"), HEADER(":scheme", "https"),
                                  HEADER(":authority", "localhost"), HEADER(":path", "/index.html")};
    if (nghttp2_submit_settings(client, NGHTTP2_FLAG_NONE, NULL, 0) != 0) return 1;
    for (int i = 0; i < 100; i++)
        if (nghttp2_submit_request(client, NULL, request, 4, NULL, NULL) < 0) return 1;
    const uint8_t *bytes;
    for (ssize_t n; (n = nghttp2_session_mem_send(client, &bytes)) > 0;)
        if (nghttp2_session_mem_recv(server, bytes, (size_t)n) != n) return 1;

    printf("nghttp2: %d headers; the client's connection holds %zu KiB, the server's %zu KiB\n", headers_seen,
           epoch_domain_held(connection[0]) / 1024, epoch_domain_held(connection[1]) / 1024);
    bool inside = slab_owns(epoch_domain_allocator(connection[0]), client) &&
                  slab_owns(epoch_domain_allocator(connection[1]), server);
    nghttp2_session_del(client);         /* frees one by one, */
    epoch_domain_destroy(connection[1]); /* or all at once */
    epoch_domain_destroy(connection[0]);
    nghttp2_session_callbacks_del(callbacks);
    return inside && headers_seen == 400 ? 0 : 1;
}
