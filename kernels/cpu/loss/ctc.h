/* ctc.h - see ctc_loss in core/backend.h. */
#ifndef TLK_CTC_H
#define TLK_CTC_H

#include "core/backend.h"

bool tlk_ctc_loss(const tlk_Ctc *call, tlk_Array loss, void *alpha, const void *log_probs);
bool tlk_ctc_loss_backward(const tlk_Ctc *call, tlk_Array grad_in, const void *grad_loss,
                           const void *loss, const void *alpha, const void *log_probs);

#endif
