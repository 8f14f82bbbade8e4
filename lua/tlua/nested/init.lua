-- init.lua - torch.nested: batches of sequences of unlike lengths; README.md beside this file
-- describes them.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.nested", {
   make = [[nested_tensor as_nested_tensor nested_tensor_from_jagged narrow masked_select
      to_padded_tensor]],
}))
