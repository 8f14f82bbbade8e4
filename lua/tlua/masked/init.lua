-- init.lua - torch.masked: reductions that leave elements out, and MaskedTensor; README.md beside
-- this file describes them.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.masked", {
   operations = [[sum prod cumsum cumprod amax amin argmax argmin mean median norm var std softmax
      log_softmax softmin normalize logsumexp logaddexp]],
   MaskedTensor = "MaskedTensor masked_tensor as_masked_tensor is_masked_tensor",
}))
