/*
** transfer.c - copies of bytes between the host and a GPU, and between two GPUs.
*/
#include "kernels/cuda/fusion/fusion.h"
#include "kernels/cuda/plugin.h"

/* Copies between two devices. The receiving stream waits until the sending stream has written the
** source. The sending stream waits for the copy, because its later work may free the source. */
static bool between(const struct tlk_transfer *call) {
  tl_Stream *to = call->cx->stream, *from = call->from_stream;
  tl_Event *before = cuda_event(call->from, 0), *after = cuda_event(call->to, 0);
  bool ok = before && after && cuda_event_record(before, from) && cuda_stream_wait(to, before) &&
            cuda_enter(to->device) &&
            cuda_ok(cudaMemcpyPeerAsync(call->dst, call->to.index, call->src, call->from.index,
                                        (size_t)call->bytes, to->handle),
                    "cudaMemcpyPeerAsync") &&
            cuda_event_record(after, to) && cuda_stream_wait(from, after);
  if (before) cuda_event_free(before);
  if (after) cuda_event_free(after);
  return ok;
}

/* Returns whether host memory is pinned, so that the driver copies asynchronously. */
static bool is_pinned(const void *host) {
  struct cudaPointerAttributes of;
  if (cudaPointerGetAttributes(&of, host) == cudaSuccess) return of.type == cudaMemoryTypeHost;
  cudaGetLastError();
  return true;
}

/* The largest copy of pageable memory for which the driver returns at once. For a larger copy, the
** driver waits until the stream's work is done, and copies in pieces. */
#define STAGED (64 * 1024)

/* Copies from or to the host. Pageable memory has been read or written when the call returns.
** Pinned memory is copied asynchronously, and the call waits for the copy unless the caller allows
** it to complete later. */
static bool with_host(const struct tlk_transfer *call) {
  tl_Stream *stream = call->cx->stream;
  bool out = call->to.type == TL_CPU;
  if (!cuda_enter(stream->device)) return false;
  if (!call->async && cuda_capture(stream) != 0)
    return cuda_fail(TL_EDEVICE, "a copy from or to pageable memory: not possible while a graph "
                                 "is captured");
  CUDA_TRY(cudaMemcpyAsync(call->dst, call->src, (size_t)call->bytes,
                           out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, stream->handle));
  if (!call->async && (out || is_pinned(call->src))) return cuda_stream_sync(stream);
  if (!call->async && call->bytes > STAGED) cuda_count_wait(stream->device);
  return true;
}

bool cuda_transfer(const struct tlk_transfer *call) {
  if (!fusion_settle(call->cx->stream)) return false;
  if (call->to.type == TL_CPU || call->from.type == TL_CPU) return with_host(call);
  if (call->to.index != call->from.index) return between(call);
  if (!cuda_enter(call->to.index)) return false;
  CUDA_TRY(cudaMemcpyAsync(call->dst, call->src, (size_t)call->bytes, cudaMemcpyDeviceToDevice,
                           call->cx->stream->handle));
  return true;
}
