-- LinearCrossEntropyOptions.lua - the options of nn.LinearCrossEntropyLoss for its chunks of rows.

local args = require "tlua.args"

local name <const> = "nn.LinearCrossEntropyOptions"
local signature = args.signature(name .. [[(allow_retain_graph: boolean = false,
   batch_chunk_size: integer?, chunking_method: string = 'auto', acc_policy: string = 'auto',
   acc_dtype: string?)]])

local policies <const> = {auto = true, accurate = true, compact = true}

local M = {}

--- Makes the table `options` of nn.LinearCrossEntropyLoss. Of PyTorch's options only
--- batch_chunk_size has an effect: backward may always be called again, the default size of chunks
--- depends on memory, and sums are always as exact as with acc_policy "accurate".
---@param options? {allow_retain_graph: boolean, batch_chunk_size: integer, chunking_method: string,
--- acc_policy: string, acc_dtype: string}
---@return table options
function M.LinearCrossEntropyOptions(...)
   local a = signature(...)
   local size = a.batch_chunk_size
   if size and size < 1 then
      args.refuse(name, "batch_chunk_size", "an integer of at least 1", size)
   end
   local method, factor = a.chunking_method:match "^(%a+_?%a*):?(%d*)$"
   if method ~= "aspect_ratio" and a.chunking_method ~= "auto" or factor == "0" then
      args.refuse(name, "chunking_method", "auto, aspect_ratio or aspect_ratio:N",
         a.chunking_method)
   elseif size and a.chunking_method ~= "auto" then
      args.refuse(name, "chunking_method", "auto if batch_chunk_size is given", a.chunking_method)
   end
   if not policies[a.acc_policy] then
      args.refuse(name, "acc_policy", "auto, accurate or compact", a.acc_policy)
   end
   if a.acc_dtype and not a.acc_dtype:find "float" then
      args.refuse(name, "acc_dtype", "a floating-point dtype", a.acc_dtype)
   end
   return {allow_retain_graph = a.allow_retain_graph, batch_chunk_size = size}
end

return M
