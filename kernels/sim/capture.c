/*
** capture.c - captures and graphs of the simulated device. The commands that one stream records in
** a capture form a lane of the graph. Only events order the commands of different lanes. A launch
** runs the lanes in a random order that respects the events, so a missing event shows as a wrong
** number.
*/
#include <stdlib.h>
#include <string.h>

#include "kernels/sim/sim.h"

/* ---- capturing --------------------------------------------------------------------- */

/* Records a command in a capture and counts it. At the end of the capture, these counts show
** whether the capturing stream has waited for all other streams. */
bool sim_locked_record(tl_Stream *stream, sim_Kind kind, const sim_Command *what, const void *call,
                       size_t size) {
  tl_Graph *graph = stream->recording;
  if (!sim_queue_add(&graph->lanes[stream->id], kind, what, call, size)) return false;
  graph->done[stream->id][stream->id]++;
  return true;
}

bool sim_locked_record_event(tl_Event *event, tl_Stream *stream) {
  tl_Graph *graph = stream->recording;
  sim_Command what = {.point = {.event = event}};
  event->record = sim_queue_add(&graph->lanes[stream->id], SIM_RECORD, &what, NULL, 0);
  if (event->record == NULL) return false;
  event->capture = graph->number;
  memcpy(event->clock, graph->done[stream->id], sizeof event->clock);
  return true;
}

/* Returns the open capture in which an event was recorded. If that capture has ended, returns NULL
** with a message. */
static tl_Graph *capture_of(const tl_Event *event) {
  sim_Device *d = sim_device(event->device.index);
  for (int s = 0; s < SIM_STREAMS && event->capture; s++) {
    tl_Graph *graph = d->streams[s].recording;
    if (graph && graph->number == event->capture) return graph;
  }
  sim_host->fail(TL_EDEVICE, "sim: waiting for an event: it was recorded in a capture that has "
                             "ended; record it again");
  return NULL;
}

/* Returns whether a stream may wait for an event that was recorded in this capture. By waiting, a
** stream takes part in the capture. */
static bool may_join(const tl_Stream *stream, const tl_Graph *graph) {
  if (stream->device != graph->device)
    return sim_host->fail(TL_EDEVICE,
                          "sim: waiting for an event: a stream of sim:%d cannot take "
                          "part in a capture of sim:%d",
                          stream->device->index, graph->device->index);
  return stream->recording == NULL || stream->recording == graph ||
         sim_host->fail(TL_EDEVICE,
                        "sim: waiting for an event: it was recorded in another capture");
}

bool sim_locked_record_wait(tl_Stream *stream, tl_Event *event) {
  if (event->capture == 0 && event->recorded == 0) return true;
  if (event->capture == 0)
    return sim_host->fail(TL_EDEVICE, "sim: waiting for an event: it was recorded outside of the "
                                      "graph that is captured");
  tl_Graph *graph = capture_of(event);
  if (graph == NULL || !may_join(stream, graph)) return false;
  sim_Command what = {.point = {.event = event, .record = event->record}};
  if (!sim_queue_add(&graph->lanes[stream->id], SIM_WAIT, &what, NULL, 0)) return false;
  stream->recording = graph;
  uint64_t *known = graph->done[stream->id];
  for (int s = 0; s < SIM_STREAMS; s++)
    if (known[s] < event->clock[s]) known[s] = event->clock[s];
  return true;
}

/* ---- the table --------------------------------------------------------------------- */

static uint64_t captures; /* number of captures that have begun so far */

static tl_Graph *graph_new(tl_Stream *stream, uint64_t pool) {
  tl_Graph *graph = calloc(1, sizeof *graph);
  if (graph == NULL) {
    sim_host->fail(TL_EMEM, "sim: out of memory");
    return NULL;
  }
  if (!tlk_blocks_hold(&stream->device->blocks, pool)) {
    free(graph);
    return NULL;
  }
  graph->pool = pool;
  graph->device = stream->device;
  graph->origin = stream;
  graph->number = ++captures;
  return graph;
}

static void graph_free(tl_Graph *graph) {
  for (int s = 0; s < SIM_STREAMS; s++) sim_queue_clear(&graph->lanes[s]);
  tlk_blocks_let_go(&graph->device->blocks, graph->pool, graph->launched);
  free(graph);
}

bool sim_capture_begin(tl_Stream *stream, uint64_t pool, tl_CaptureMode mode) {
  (void)mode; /* any call is safe during a capture on this device, so the mode does not matter */
  sim_lock();
  bool ok = sim_locked_may_go("capture") && sim_locked_not_recording(stream, "capturing");
  tl_Graph *graph = ok ? graph_new(stream, pool) : NULL;
  if (graph) {
    stream->recording = graph;
    tlk_blocks_capture(&stream->device->blocks, 1);
  }
  sim_unlock();
  return graph != NULL;
}

/* Returns whether the stream that began the capture has waited for all work of the other
** streams. */
static bool joined(const tl_Graph *graph) {
  const uint64_t *known = graph->done[graph->origin->id];
  for (int s = 0; s < SIM_STREAMS; s++)
    if (graph->done[s][s] > known[s])
      return sim_host->fail(TL_EDEVICE,
                            "sim: the work of stream %d was not joined: the stream "
                            "that is captured must wait for it before the end",
                            s);
  return true;
}

static void locked_end(tl_Graph *graph) {
  for (int s = 0; s < SIM_STREAMS; s++)
    if (graph->device->streams[s].recording == graph) graph->device->streams[s].recording = NULL;
  tlk_blocks_capture(&graph->device->blocks, -1);
}

tl_Graph *sim_capture_end(tl_Stream *stream) {
  sim_lock();
  tl_Graph *graph = stream->recording;
  if (graph == NULL || graph->origin != stream) {
    sim_host->fail(TL_EDEVICE, "sim: no capture was begun on this stream");
    graph = NULL;
  } else {
    locked_end(graph);
    if (!joined(graph)) {
      graph_free(graph);
      graph = NULL;
    }
  }
  sim_unlock();
  return graph;
}

uint64_t sim_capture(const tl_Stream *stream) {
  sim_lock();
  uint64_t number = stream->recording ? stream->recording->number : 0;
  sim_unlock();
  return number;
}

/* ---- launching --------------------------------------------------------------------- */

/* Returns a random lane whose next command can run, because it does not wait for an event that this
** launch has yet to reach. Returns -1 if there is none. */
static int next_lane(sim_Command *const at[SIM_STREAMS], uint64_t launch) {
  int found = -1;
  uint64_t seen = 0;
  for (int s = 0; s < SIM_STREAMS; s++) {
    const sim_Command *c = at[s];
    if (c == NULL || (c->kind == SIM_WAIT && c->point.record->point.launch != launch)) continue;
    if (sim_locked_random() % ++seen == 0) found = s;
  }
  return found;
}

/* Queues the commands of all lanes in a random order that respects the events. */
static bool in_order(tl_Graph *graph, sim_Queue *out) {
  sim_Command *at[SIM_STREAMS];
  for (int s = 0; s < SIM_STREAMS; s++) at[s] = graph->lanes[s].first;
  graph->launches++;
  for (int s; (s = next_lane(at, graph->launches)) >= 0; at[s] = at[s]->next) {
    sim_Command *c = at[s];
    if (c->kind == SIM_RECORD)
      c->point.launch = graph->launches;
    else if (c->kind != SIM_WAIT && !sim_queue_add(out, c->kind, c, c->call, c->size))
      return false;
  }
  return true;
}

bool sim_graph_launch(tl_Graph *graph, tl_Stream *stream) {
  sim_lock();
  sim_Queue work = {0};
  bool ok = sim_locked_may_go("graph launch") &&
            sim_locked_not_recording(stream, "replaying a graph") && in_order(graph, &work);
  if (ok) {
    graph->launched |= (uint64_t)1 << stream->id;
    ok = sim_locked_put_all(stream, &work);
  }
  sim_queue_clear(&work);
  sim_unlock();
  return ok;
}

void sim_graph_free(tl_Graph *graph) {
  sim_lock();
  graph_free(graph);
  sim_unlock();
}
