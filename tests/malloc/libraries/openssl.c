/* A handshake between two ends in memory, and some data both ways. Sessions stay in the server's cache. */
#include "captured.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string.h>

static SSL_CTX *server_context, *client_context;

static void make_certificate(SSL_CTX *context) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    CHECK(key && certificate);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
    CHECK(SSL_CTX_use_certificate(context, certificate) == 1 && SSL_CTX_use_PrivateKey(context, key) == 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static SSL *make_end(SSL_CTX *context, BIO *in, BIO *out) {
    SSL *ssl = SSL_new(context);
    CHECK(ssl != NULL);
    SSL_set_bio(ssl, in, out);
    return ssl;
}

static void send_and_get(SSL *from, SSL *to, const char *text) {
    char got[100] = "";
    CHECK(SSL_write(from, text, (int)strlen(text)) == (int)strlen(text));
    CHECK(SSL_read(to, got, sizeof got) == (int)strlen(text) && strcmp(got, text) == 0);
}

static void serve(unsigned request) {
    BIO *up = BIO_new(BIO_s_mem()), *down = BIO_new(BIO_s_mem());
    CHECK(up && down);
    CHECK(BIO_up_ref(up) == 1 && BIO_up_ref(down) == 1);
    SSL *client = make_end(client_context, down, up), *server = make_end(server_context, up, down);
    char text[50];
    SSL_set_connect_state(client);
    SSL_set_accept_state(server);
    for (int i = 0; i < 10 && !(SSL_is_init_finished(client) && SSL_is_init_finished(server)); i++) {
        (void)SSL_do_handshake(client);
        (void)SSL_do_handshake(server);
    }
    CHECK(SSL_is_init_finished(client) && SSL_is_init_finished(server));
    snprintf(text, sizeof text, "request %u", request);
    send_and_get(client, server, text);
    send_and_get(server, client, "answer");
    SSL_free(client);
    SSL_free(server);
    ERR_clear_error();
}

static void begin(void) {
    server_context = SSL_CTX_new(TLS_server_method());
    client_context = SSL_CTX_new(TLS_client_method());
    CHECK(server_context && client_context);
    make_certificate(server_context);
    SSL_CTX_set_verify(client_context, SSL_VERIFY_NONE, NULL);
    CHECK(SSL_CTX_set_session_id_context(server_context, (const unsigned char *)"test", 4) == 1);
    (void)SSL_CTX_set_options(server_context, SSL_OP_NO_TICKET);
    (void)SSL_CTX_sess_set_cache_size(server_context, 8);
    serve(0); /* loaded and fetched at first use */
}

static void end(void) {
    SSL_CTX_free(client_context);
    SSL_CTX_free(server_context);
    OPENSSL_cleanup();
}

const library tested = {begin, serve, NULL, end};
