/*
** store_test.c - tests store.h: what happens if another program owns the port, clients with and
** without the secret, and that no client delays the others.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif

#include "dist/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/platform/platform.h"
#include "core/platform/share.h"
#include "core/platform/socket.h"
#include "dist/secret.h"
#include "test.h"

#define SECOND INT64_C(1000000000)
#define LONG (60 * SECOND) /* a time that is longer than any test takes */

static const char secret[] = "the secret of this job", another[] = "that of another job";

/* A program that is not a store. It accepts some connections, sends `text` on each one, and
** closes it. */
typedef struct Other {
  int listener, port, connections;
  const char *text;
  atomic_uint ended;
} Other;

static void talk(void *context) {
  Other *o = context;
  for (int taken = 0; taken < o->connections;) {
    if (!tli_socket_wait(o->listener, tli_now_ns() + SECOND / 10)) continue;
    int socket = tli_socket_accept(o->listener);
    if (socket < 0) continue;
    if (!tli_socket_send(socket, o->text, strlen(o->text), tli_now_ns() + 1000000000))
      tli_error_clear();
    /* Closing the socket with unread input would discard the bytes that were sent, so the input
    ** is read first. */
    char heard[24];
    if (*o->text && !tli_socket_receive(socket, heard, sizeof heard, tli_now_ns() + 10000000000))
      tli_error_clear();
    tli_socket_close(socket);
    taken++;
  }
  tli_socket_close(o->listener); /* from now on, connections are refused */
  atomic_store(&o->ended, 1);
  tli_word_wake(&o->ended);
}

static void begin(Other *o) {
  o->listener = tli_socket_listen("127.0.0.1", &o->port);
  CHECK(o->listener != TLI_NOSOCKET);
  CHECK(tli_thread_start(talk, o));
}

static void end(Other *o) {
  while (atomic_load(&o->ended) == 0) tli_word_wait(&o->ended, 0, 100000000);
}

TEST(a_server_of_another_protocol_is_refused) {
  const char *texts[] = {"SSH-2.0-OpenSSH_9.2p1\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
                         "-ERR\r\n"};
  for (int i = 0; i < 3; i++) {
    Other other = {.connections = 1, .text = texts[i]};
    begin(&other);
    CHECK(tli_store_connect("127.0.0.1", other.port, NULL, LONG) == NULL);
    CHECK_ERROR(TL_EARG, "its answer differs");
    end(&other);
  }
}

TEST(a_silent_server_is_refused) {
  int port = 0, listener = tli_socket_listen("127.0.0.1", &port);
  CHECK(listener != TLI_NOSOCKET);
  CHECK(tli_store_connect("127.0.0.1", port, NULL, SECOND) == NULL);
  CHECK_ERROR(TL_EARG, "no answer in time");
  tli_socket_close(listener);
}

/* Tests a store that is about to end: it closes its connections, and soon a new store has its
** port. The client must try again until the new store answers. */
TEST(a_closed_connection_is_tried_again) {
  Other other = {.connections = 1, .text = ""};
  begin(&other);
  CHECK(tli_store_connect("127.0.0.1", other.port, NULL, 3 * SECOND / 10) == NULL);
  CHECK_ERROR(TL_EIO, "no connection to 127.0.0.1");
  end(&other);
}

/* ---- secrets --------------------------------------------------------------------- */

static tli_StoreServer *serve(const char *with) {
  tli_StoreServer *server = tli_store_serve("127.0.0.1", 0, with);
  CHECK(server != NULL);
  return server;
}

static tli_Store *connect_with(const tli_StoreServer *server, const char *with) {
  return tli_store_connect("127.0.0.1", tli_store_server_port(server), with, LONG);
}

static void check_works(tli_Store *store) {
  size_t size;
  CHECK(store != NULL);
  CHECK(tli_store_set(store, "key", "value", 5));
  char *value = tli_store_get(store, "key", &size, LONG);
  CHECK(value && size == 5 && memcmp(value, "value", 5) == 0);
  free(value);
}

TEST(a_client_with_the_secret_is_served) {
  const char *secrets[] = {NULL, TLI_STORE_TRUST, secret};
  for (int i = 0; i < 3; i++) {
    tli_StoreServer *server = serve(secrets[i]);
    tli_Store *store = connect_with(server, secrets[i]);
    check_works(store);
    tli_Store *again = tli_store_connect_again(store, LONG);
    check_works(again);
    tli_store_close(again);
    tli_store_close(store);
    tli_store_server_stop(server);
  }
}

TEST(a_client_without_the_secret_gets_an_error) {
  tli_StoreServer *closed = serve(secret), *open = serve(NULL);
  CHECK(connect_with(closed, another) == NULL);
  CHECK_ERROR(TL_EARG, "the secret of the store there is another one than this process has");
  CHECK(connect_with(closed, NULL) == NULL);
  CHECK_ERROR(TL_EARG, "asks for the job's secret, and this process has none: set TLUA_SECRET");
  CHECK(connect_with(open, secret) == NULL);
  CHECK_ERROR(TL_EARG, "the store there has no secret, and this process has one");
  CHECK(connect_with(closed, "short") == NULL);
  CHECK_ERROR(TL_EARG, "expected a secret of 16 to 511 characters, got 5");
  /* the server still works after the failed attempts */
  tli_Store *store = connect_with(closed, secret);
  check_works(store);
  tli_store_close(store);
  tli_store_server_stop(closed);
  tli_store_server_stop(open);
}

TEST(other_machines_need_a_secret) {
  CHECK(tli_store_serve("", 0, NULL) == NULL);
  CHECK_ERROR(TL_EARG, "a store that other machines can reach needs a secret");
  const char *secrets[] = {TLI_STORE_TRUST, secret};
  for (int i = 0; i < 2; i++) {
    tli_StoreServer *server = tli_store_serve("", 0, secrets[i]);
    CHECK(server != NULL);
    tli_store_server_stop(server);
  }
}

/* A program that listens on a store's port without knowing the secret. It sends back everything
** that it receives. */
static void mirror(void *context) {
  Other *o = context;
  CHECK(tli_socket_wait(o->listener, tli_now_ns() + LONG));
  int socket = tli_socket_accept(o->listener);
  tli_StoreRequest r;
  struct {
    tli_StoreAnswer a;
    unsigned char bytes[TLI_CHALLENGE];
  } say = {{TLI_STORE_MAGIC, TLI_CHALLENGE, TLI_STORE_MAGIC}, {7}};
  unsigned char heard[TLI_CHALLENGE + TLI_SHA256_BYTES];
  int64_t end = tli_now_ns() + LONG;
  CHECK(tli_socket_receive(socket, &r, sizeof r, end));
  CHECK(tli_socket_send(socket, &say, sizeof say, end));
  CHECK(tli_socket_receive(socket, &r, sizeof r, end));
  CHECK(tli_socket_receive(socket, heard, sizeof heard, end));
  /* the client proves that it knows the secret without sending it */
  CHECK(memmem(heard, sizeof heard, secret, 8) == NULL);
  say.a = (tli_StoreAnswer){TLI_STORE_OK, TLI_SHA256_BYTES, 0};
  memcpy(say.bytes, heard + TLI_CHALLENGE, TLI_SHA256_BYTES);
  CHECK(tli_socket_send(socket, &say, sizeof say, end));
  char none;
  /* the next read fails, because the client ends the connection */
  if (tli_socket_receive(socket, &none, 1, end)) CHECK(false);
  tli_error_clear();
  tli_socket_close(socket);
  tli_socket_close(o->listener);
  atomic_store(&o->ended, 1);
  tli_word_wake(&o->ended);
}

TEST(a_store_proves_that_it_knows_it) {
  Other other = {0};
  other.listener = tli_socket_listen("127.0.0.1", &other.port);
  CHECK(other.listener != TLI_NOSOCKET);
  CHECK(tli_thread_start(mirror, &other));
  CHECK(tli_store_connect("127.0.0.1", other.port, secret, LONG) == NULL);
  CHECK_ERROR(TL_EARG, "the store there does not know the secret");
  end(&other);
}

/* ---- clients without the secret -------------------------------------------------- */

static int knock(const tli_StoreServer *server) {
  int socket = tli_socket_connect("127.0.0.1", tli_store_server_port(server), tli_now_ns() + LONG);
  CHECK(socket != TLI_NOSOCKET);
  return socket;
}

static bool is_closed(int socket) {
  char byte;
  while (tli_socket_wait(socket, tli_now_ns() + LONG)) {
    int64_t n = tli_socket_take(socket, &byte, 1);
    if (n < 0) return true;
  }
  return false;
}

/* Tests that the server closes the connection if the first request is wrong, or if it needs a
** proof that was not given. */
TEST(a_client_without_proof_may_make_no_request) {
  tli_StoreServer *server = serve(secret);
  const tli_StoreRequest requests[] = {
      {TLI_STORE_MAGIC, TLI_STORE_COUNT, 0, 0, 0},
      {TLI_STORE_MAGIC, TLI_STORE_SET, 3, 1u << 20, 0},
      {TLI_STORE_MAGIC, TLI_STORE_PROVE, 0, TLI_CHALLENGE + TLI_SHA256_BYTES, 0},
      {TLI_STORE_MAGIC, TLI_STORE_GREET, 10, 0, 0},
      {TLI_STORE_MAGIC, 1000, 0, 0, 0},
      {7, TLI_STORE_GREET, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
    int socket = knock(server);
    CHECK(tli_socket_send(socket, &requests[i], sizeof *requests, tli_now_ns() + LONG));
    CHECK(is_closed(socket));
    tli_socket_close(socket);
  }
  tli_store_server_stop(server);
}

/* Tests that clients that connect and send nothing do not use up the store's connections or the
** process's file descriptors. */
TEST(silent_clients_do_not_keep_others_out) {
  struct rlimit before, few;
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  few = before;
  few.rlim_cur = 200;
  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
  tli_StoreServer *server = serve(secret);
  /* the server keeps the lower limit with which it started; the old limit is restored here */
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
  int silent[400];
  for (int i = 0; i < 400; i++) silent[i] = knock(server);
  tli_Store *store = connect_with(server, secret);
  check_works(store);
  tli_store_close(store);
  for (int i = 0; i < 400; i++) tli_socket_close(silent[i]);
  tli_store_server_stop(server);
}

/* ---- misbehaving clients -------------------------------------------------------------- */

enum { LARGE = 8 << 20 };

/* Returns a connection that has received the server's greeting but has not proved that it knows
** the secret. */
static int greeted(const tli_StoreServer *server) {
  int socket = knock(server);
  tli_StoreRequest r = {TLI_STORE_MAGIC, TLI_STORE_GREET, 0, 0, 0};
  tli_StoreAnswer a;
  CHECK(tli_socket_send(socket, &r, sizeof r, tli_now_ns() + LONG));
  CHECK(tli_socket_receive(socket, &a, sizeof a, tli_now_ns() + LONG));
  CHECK(a.status == TLI_STORE_MAGIC);
  return socket;
}

/* Tests that a client that does not read delays no other client. In an old version, each such
** client delayed the server by five seconds. */
TEST(a_client_that_does_not_read_delays_no_other) {
  tli_StoreServer *server = serve(NULL);
  tli_Store *store = connect_with(server, NULL);
  char *large = calloc(1, LARGE);
  CHECK(large && tli_store_set(store, "large", large, LARGE));
  int deaf[20];
  tli_StoreRequest get = {TLI_STORE_MAGIC, TLI_STORE_GET, 5, 0, LONG};
  for (int i = 0; i < 20; i++) {
    deaf[i] = greeted(server);
    CHECK(tli_socket_send(deaf[i], &get, sizeof get, tli_now_ns() + LONG));
    CHECK(tli_socket_send(deaf[i], "large", 5, tli_now_ns() + LONG));
  }
  for (int i = 0; i < 50; i++)
    check_works(store); /* this check fails if the server does not answer within ten seconds */
  /* a client that reads late gets the complete old value, although the value has changed
  ** meanwhile */
  memset(large, 1, LARGE);
  CHECK(tli_store_set(store, "large", large, LARGE));
  tli_StoreAnswer a;
  CHECK(tli_socket_receive(deaf[0], &a, sizeof a, tli_now_ns() + LONG));
  CHECK(a.value == LARGE);
  CHECK(tli_socket_receive(deaf[0], large, LARGE, tli_now_ns() + LONG));
  CHECK(large[0] == 0 && large[LARGE - 1] == 0);
  for (int i = 0; i < 20; i++) tli_socket_close(deaf[i]);
  free(large);
  tli_store_close(store);
  tli_store_server_stop(server);
}

/* Sends until the socket's buffer is full, which happens because the peer never reads. */
static void pour(int socket, const void *data, size_t bytes) {
  for (int i = 0; i < 2000; i++)
    if (tli_socket_give(socket, data, bytes) <= 0) break;
}

TEST(a_client_with_endless_requests_waits_for_its_turn) {
  tli_StoreServer *server = serve(NULL);
  tli_Store *store = connect_with(server, NULL);
  enum { N = 2000 };
  tli_StoreRequest *many = calloc(N, sizeof *many);
  CHECK(many != NULL);
  for (int i = 0; i < N; i++)
    many[i] = (tli_StoreRequest){TLI_STORE_MAGIC, TLI_STORE_COUNT, 0, 0, 0};
  int greedy = greeted(server), waiting = greeted(server);
  pour(greedy, many, N * sizeof *many);
  /* Tests that a connection is closed if too many of its requests are queued behind a request
  ** that waits. */
  many[0] = (tli_StoreRequest){TLI_STORE_MAGIC, TLI_STORE_WAIT, 0, 0, LONG};
  pour(waiting, many, N * sizeof *many);
  CHECK(is_closed(waiting));
  for (int i = 0; i < 50; i++) check_works(store);
  tli_socket_close(greedy);
  tli_socket_close(waiting);
  free(many);
  tli_store_close(store);
  tli_store_server_stop(server);
}

TEST(keys_of_a_prefix_are_removed) {
  tli_StoreServer *server = serve(secret);
  tli_Store *store = connect_with(server, secret);
  int64_t n;
  const char *keys[] = {"world1/a", "world1/b/0", "world1", "world10/a", "x"};
  for (int i = 0; i < 5; i++) CHECK(tli_store_set(store, keys[i], "", 0));
  CHECK(tli_store_clear(store, "world1/", &n) && n == 2);
  CHECK(tli_store_count(store, &n) && n == 3);
  CHECK(tli_store_clear(store, "none", &n) && n == 0);
  tli_store_close(store);
  tli_store_server_stop(server);
}

/* ---- files and memory ------------------------------------------------------------------ */

TEST(a_secret_is_read_from_a_private_file_alone) {
  char folder[] = "/tmp/tlua-store-test-XXXXXX", path[100], link_path[100], read[TLI_SECRET_ROOM];
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/secret", folder);
  snprintf(link_path, sizeof link_path, "%s/link", folder);
  CHECK(tli_private_file_read(path, read, sizeof read) == TLI_PRIVATE_MISSING);
  tli_error_clear();
  CHECK(tli_private_file_write(path, "the secret of this job\n", 23));
  CHECK(tli_secret_read(path, read));
  CHECK(strcmp(read, secret) == 0);
  CHECK(symlink(path, link_path) == 0);
  CHECK(tli_private_file_read(link_path, read, sizeof read) == TLI_PRIVATE_FOREIGN);
  CHECK_ERROR(TL_EIO, "expected a plain file, got a link");
  CHECK(unlink(link_path) == 0 && link(path, link_path) == 0);
  CHECK(!tli_secret_read(path, read));
  CHECK_ERROR(TL_EIO, "expected a file of one name");
  CHECK(unlink(link_path) == 0 && chmod(path, 0640) == 0);
  CHECK(!tli_secret_read(path, read));
  CHECK_ERROR(TL_EIO, "expected mode 600, got 640");
  CHECK(tli_private_file_write(path, "short\n", 6)); /* this makes the file private again */
  CHECK(!tli_secret_read(path, read));
  CHECK_ERROR(TL_EARG, "expected a secret of 16 to 511 characters, got 5");
  CHECK(!tli_secret_read(folder, read));
  CHECK_ERROR(TL_EIO, "expected a plain file");
  if (geteuid() == 0) {
    CHECK(chown(path, 12345, 12345) == 0);
    CHECK(tli_private_file_read(path, read, sizeof read) == TLI_PRIVATE_FOREIGN);
    CHECK_ERROR(TL_EIO, "expected a file of this user (0), it is of user 12345");
  }
  unlink(path);
  rmdir(folder);
}

/* Tests that the name of shared memory is accepted only if a process of the same user made the
** memory. */
TEST(shared_memory_is_opened_by_its_exact_name) {
  tli_Share share, other;
  char name[TLI_SHARE_NAME], path[100], wrong[200];
  CHECK(tli_share_make(&share, 4096, name));
  ((char *)share.data)[0] = 7;
  CHECK(tli_share_open(&other, name, 4096));
  CHECK(((char *)other.data)[0] == 7);
  CHECK(ftruncate(other.file, 0) != 0); /* other processes cannot truncate the memory */
  tli_share_close(&other);
  CHECK(!tli_share_open(&other, name, 8192));
  CHECK_ERROR(TL_EIO, "not 8192 bytes");
  snprintf(path, sizeof path, "/tmp/tlua-share-%ld", (long)getpid());
  FILE *file = fopen(path, "w");
  CHECK(file && ftruncate(fileno(file), 4096) == 0);
  const char *forms[] = {"/proc/../tmp/tlua-share-%ld",
                         "/proc/%ld/fd/../../../tmp/x",
                         "/proc/self/fd/%ld",
                         "/proc/+%ld/fd/1",
                         "/proc/%ld/fd/01",
                         "/proc/%ld/fd/1/",
                         " /proc/%ld/fd/1",
                         "/dev/shm/%ld"};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    snprintf(wrong, sizeof wrong, forms[i], (long)getpid());
    CHECK(!tli_share_open(&other, wrong, 4096));
    CHECK_ERROR(TL_EARG, "is not the name of a block");
  }
  /* the path of an open file: its form and the file's length are right, but the file is not
  ** shared memory */
  snprintf(wrong, sizeof wrong, "/proc/%ld/fd/%d", (long)getpid(), fileno(file));
  CHECK(!tli_share_open(&other, wrong, 4096));
  CHECK_ERROR(TL_EIO, "its maker must be a process of this machine and user");
  fclose(file);
  unlink(path);
  tli_share_close(&share);
}

int main(void) { return test_all(); }
