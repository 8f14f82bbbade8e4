/*
** settings.h - what users have set for kernels, such as whether matrix products may use TF32.
*/
#ifndef TLI_SETTINGS_H
#define TLI_SETTINGS_H

#include "core/device/api.h"

/* Settings hold for the process, except in threads that have called tli_own_settings. */
int64_t tli_setting(tl_Setting which);
void tli_set_setting(tl_Setting which, int64_t value);
/* From now on the calling thread has settings of its own, which begin as copies of the process's:
** for threads that stand for a process (data-loader workers). */
void tli_own_settings(void);

#endif
