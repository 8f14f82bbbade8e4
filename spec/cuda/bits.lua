-- Tensors of the device compared bit by bit, for programs that a spec runs.

local torch = require "tlua"

local M = {}

local as_integer <const> = {
   float32 = "int32", float64 = "int64", float16 = "int16", bfloat16 = "int16", bool = "uint8",
}

local function bits(x)
   x = x:cpu():contiguous()
   return as_integer[x.dtype] and x:view(as_integer[x.dtype]) or x
end

--- Ends the program, saying where, if two lists of tensors are not of the same bits.
---@param name string what they are of
---@param eager torch.Tensor[]
---@param replayed torch.Tensor[]
function M.compare(name, eager, replayed)
   assert(#eager == #replayed)
   for i, x in ipairs(eager) do
      local y = replayed[i]
      if x.dtype ~= y.dtype or not torch.equal(bits(x), bits(y)) then
         print(("%s: result %d of %d, %s, differs:\n%s\n%s"):format(name, i, #eager, x.dtype, x, y))
         os.exit(1)
      end
   end
end

return M
