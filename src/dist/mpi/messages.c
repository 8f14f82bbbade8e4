/*
** messages.c - messages between two ranks. First a header is sent under the user's tag; it contains
** the number of bytes, the dtype, and the tag of the data. The data follows.
*/
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "dist/mpi/mpi.h"

typedef struct Head {
  int64_t bytes;
  uint64_t hash; /* hash of the elements' dtype */
  int32_t tag;   /* tag under which the data is sent */
} Head;

/* the largest number of requests of a message: one for its header, the others for pieces of its
** data */
enum { PARTS = 5 };
#define PIECE ((int64_t)1 << 30)

struct tli_MpiMessage {
  tli_MpiMessage *next;
  tli_Work *work; /* the pending call (borrowed) */
  Head head;
  tli_MpiRequest request[PARTS];
  bool done[PARTS];
  int n; /* number of requests that have been started */
};

/* ---- beginning ----------------------------------------------------------------------- */

static bool too_large(const tli_Work *w, int64_t bytes) {
  if (bytes <= (PARTS - 1) * PIECE) return false;
  tli_fail(TL_EARG, "%s: mpi moves at most %lld bytes in a message, got %lld",
           tli_collective_names[w->kind], (long long)((PARTS - 1) * PIECE), (long long)bytes);
  return true;
}

/* Begins to send or receive bytes, in pieces of the largest size that MPI can count. */
static int begin_bytes(tli_MpiGroup *m, tli_MpiMessage *s, bool sends, char *data, int peer) {
  int64_t left = s->head.bytes;
  int code = 0;
  while (left > 0 && code == 0) {
    int bytes = (int)(left < PIECE ? left : PIECE);
    tli_MpiRequest *q = &s->request[s->n++];
    code = sends ? m->mpi->send(m->comm, false, data, bytes, peer, s->head.tag, q)
                 : m->mpi->receive(m->comm, false, data, bytes, peer, s->head.tag, q);
    data += bytes;
    left -= bytes;
  }
  return code;
}

static int begin(tli_MpiGroup *m, tli_MpiMessage *s) {
  tli_Work *w = s->work;
  int tag = (int)w->tag;
  s->n = 1;
  if (w->kind == TLI_RECV)
    return m->mpi->receive(m->comm, true, &s->head, sizeof s->head, w->root, tag, &s->request[0]);
  m->next_tag = m->next_tag % 30000 + 1;
  s->head = (Head){w->in[0].bytes, w->hash, m->next_tag};
  int code = m->mpi->send(m->comm, true, &s->head, sizeof s->head, w->root, tag, &s->request[0]);
  return code ? code : begin_bytes(m, s, true, w->in[0].data, w->root);
}

static bool check_tag(const tli_MpiGroup *m, const tli_Work *w) {
  tli_mutex_lock(&tli_mpi_lock);
  int most = m->mpi->most_tag();
  tli_mutex_unlock(&tli_mpi_lock);
  if (w->tag >= 0 && w->tag <= most) return true;
  return tli_fail(TL_EARG, "%s: tag: mpi has 0 to %d, got %lld", tli_collective_names[w->kind],
                  most, (long long)w->tag);
}

void tli_mpi_post(tli_Group *g, tli_Work *w) {
  tli_MpiGroup *m = tli_mpi_group(g);
  if (!check_tag(m, w) || (w->kind == TLI_SEND && too_large(w, w->in[0].bytes))) {
    tli_work_end(w, false);
    return;
  }
  tli_MpiMessage *s = tli_alloc(sizeof *s), **at = &m->messages;
  if (s == NULL) {
    tli_work_end(w, false);
    return;
  }
  memset(s, 0, sizeof *s);
  s->work = w;
  tli_mutex_lock(&tli_mpi_lock);
  int code = begin(m, s);
  tli_mutex_unlock(&tli_mpi_lock);
  if (!tli_mpi_ok(m->mpi, code)) {
    tli_mpi_abandon(m, w);
    tli_work_end(w, false); /* MPI may still write to the requests in s, so s is never freed */
    return;
  }
  while (*at) at = &(*at)->next;
  *at = s;
}

/* ---- progress ---------------------------------------------------------------------------- */

static bool fits(tli_MpiGroup *m, tli_Work *w, const Head *head) {
  const tli_Group *g = &m->base;
  if (head->bytes == w->out[0].bytes && head->hash == w->hash) return true;
  char why[400], text[240];
  tli_status_text(&w->status, g, text, sizeof text);
  snprintf(why, sizeof why, "%s on rank %d: rank %d has sent %lld bytes%s, expected were %lld",
           text, g->ranks[g->rank], g->ranks[w->source], (long long)head->bytes,
           head->hash == w->hash ? "" : " of another dtype", (long long)w->out[0].bytes);
  return tli_report_publish(&m->base, &m->report, why);
}

/* Begins to receive the data of a message whose header has arrived. */
static bool receive_bytes(tli_MpiGroup *m, tli_MpiMessage *s) {
  tli_Work *w = s->work;
  if (!fits(m, w, &s->head)) return false;
  tli_mutex_lock(&tli_mpi_lock);
  int code = begin_bytes(m, s, false, w->out[0].data, w->source);
  tli_mutex_unlock(&tli_mpi_lock);
  return tli_mpi_ok(m->mpi, code);
}

typedef enum Step { WAITS, MOVED, ENDED, FAILED } Step;

static Step advance(tli_MpiGroup *m, tli_MpiMessage *s) {
  Step step = WAITS;
  bool all = true;
  for (int i = 0; i < s->n; i++) {
    int source = -1;
    if (s->done[i]) continue;
    tli_mutex_lock(&tli_mpi_lock);
    int code = m->mpi->test(&s->request[i], &s->done[i], &source);
    tli_mutex_unlock(&tli_mpi_lock);
    if (!tli_mpi_ok(m->mpi, code)) return FAILED;
    all &= s->done[i];
    if (!s->done[i]) continue;
    step = MOVED;
    if (i > 0 || s->work->kind == TLI_SEND) continue;
    s->work->source = source;
    if (!receive_bytes(m, s)) return FAILED;
  }
  return all ? ENDED : step;
}

/* Ends a message that has no pending request, or whose pending requests MPI will never complete. */
static void end(tli_MpiMessage **at, bool ok) {
  tli_MpiMessage *s = *at;
  tli_Work *w = s->work;
  *at = s->next;
  if (ok) tli_free(s, sizeof *s);
  tli_work_end(w, ok);
}

bool tli_mpi_move(tli_Group *g, bool slept) {
  tli_MpiGroup *m = tli_mpi_group(g);
  bool moved = false;
  for (tli_MpiMessage **at = &m->messages; *at;) {
    Step step = advance(m, *at);
    moved |= step != WAITS;
    if (step == FAILED) tli_mpi_abandon(m, (*at)->work);
    if (step == ENDED || step == FAILED)
      end(at, step == ENDED);
    else
      at = &(*at)->next;
  }
  for (tli_MpiMessage *s = m->messages; slept && s; s = s->next) {
    if (tli_mpi_look(m, s->work)) continue;
    tli_mpi_fail(g);
    break;
  }
  return moved;
}

bool tli_mpi_await(tli_Group *g, tli_Work *w) {
  tli_MpiGroup *m = tli_mpi_group(g);
  tli_MpiPause pause = {0};
  while (!tli_work_done(w)) {
    if (tli_mpi_move(g, false)) pause.turns = 0;
    if (!tli_work_done(w) && !tli_mpi_pause(m, w, &pause)) return false;
  }
  return true;
}

void tli_mpi_fail(tli_Group *g) {
  tli_MpiGroup *m = tli_mpi_group(g);
  while (m->messages) {
    tli_mpi_abandon(m, m->messages->work);
    end(&m->messages, false);
  }
}
