/*
** settings.h - the settings that users choose for kernels, such as whether matrix products may use
** TF32.
*/
#ifndef TLI_SETTINGS_H
#define TLI_SETTINGS_H

#include "core/device/api.h"

/* Settings hold for the process, except in threads that have called tli_own_settings. */
int64_t tli_setting(tl_Setting which);
void tli_set_setting(tl_Setting which, int64_t value);
/* Gives the calling thread settings of its own, copied from the process's. Data-loader workers,
** threads that stand for a process, use it. */
void tli_own_settings(void);

#endif
