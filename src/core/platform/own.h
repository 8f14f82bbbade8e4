/*
** own.h - what a thread that stands for a process has for itself (data-loader workers): what it
** sets holds for no other thread, and what others set from then on does not hold for it.
*/
#ifndef TLI_OWN_H
#define TLI_OWN_H

/* The calling thread's operators share their work among n threads, as tl_set_num_threads says. */
void tli_own_threads(int n);

/* The calling thread begins with copies of the process's settings (core/device/backend.h). */
void tli_own_settings(void);

#endif
