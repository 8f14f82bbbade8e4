/*
** settings.h - the settings that users choose for kernels, such as whether matrix products may use
** TF32.
*/
#ifndef TLI_SETTINGS_H
#define TLI_SETTINGS_H

#include "core/device/api.h"

/* Returns a setting. In a thread that has called tli_own_settings, it is the thread's setting,
** otherwise the setting of the process. */
int64_t tli_setting(tl_Setting which);
void tli_set_setting(tl_Setting which, int64_t value);
/* Gives the calling thread settings of its own, copied from the process's. Data-loader workers call
** this function, because a worker is a thread that acts as a process of its own. */
void tli_own_settings(void);

#endif
