/*
** lost.h - files that become shorter while they are mapped: the system sends SIGBUS to
** who reads what is gone.
*/
#ifndef TLI_LOST_H
#define TLI_LOST_H

#include <stdbool.h>

typedef void (*tli_LostFn)(bool here);

/* Sets what is called, by a signal handler in the thread that has set it, when memory of a
** mapped file was found to be gone and holds zeros instead; `here`: this thread has read
** it. Returns what was called before. NULL: that ends the process. */
tli_LostFn tli_lost_catch(tli_LostFn fn);

#endif
