-- bits.lua - compares tensors on a device bit by bit. Specs run programs that use this module.

local torch = require "tlua"

local M = {}

local as_integer <const> = {
   float32 = "int32", float64 = "int64", float16 = "int16", bfloat16 = "int16", bool = "uint8",
}

-- Returns the bits of a tensor as integers. All NaN get the same bits, as a GPU gives them. On a CPU the sum of two NaN
-- is the first operand, and the compiler decides which operand comes first.
local function bits(x)
   x = x:cpu():contiguous()
   if x.dtype:find "float" then x = x:masked_fill(x:isnan(), 0 / 0) end
   return as_integer[x.dtype] and x:view(as_integer[x.dtype]) or x
end

--- Ends the program with a message if two lists of tensors are not bitwise equal.
---@param name string what the tensors are, for the message
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

--- Returns copies of tensors, with the same layouts.
---@param list torch.Tensor[]
---@return torch.Tensor[]
function M.clones(list)
   local copies = {}
   for i, x in ipairs(list) do
      copies[i] = torch.empty_strided(x.shape, x:stride(), {dtype = x.dtype, device = "cuda"}):copy_(x:detach())
      copies[i]:requires_grad_(x.requires_grad)
   end
   return copies
end

local function detached(list)
   local copies = {}
   for i, x in ipairs(list) do copies[i] = x:detach():clone() end
   return copies
end

--- Runs `fn(inputs ...)`, which returns a list of tensors, twice eagerly and twice by replaying a graph, and compares
--- the results. Each run has the same seed.
---@param name string
---@param inputs torch.Tensor[]
---@param fn function
---@return torch.Tensor[] first the tensors that fn returned
---@return torch.Tensor[] second
function M.replayed(name, inputs, fn)
   local g, eager, replays = torch.cuda.Graph(), {}, {}
   local own, static = M.clones(inputs), M.clones(inputs)
   torch.manual_seed(7)
   for turn = 1, 2 do eager[turn] = detached(fn(table.unpack(own))) end
   local results = torch.cuda.graph(g, function() return fn(table.unpack(static)) end)
   torch.manual_seed(7)
   for turn = 1, 2 do
      g:replay()
      replays[turn] = detached(results)
   end
   for turn = 1, 2 do M.compare(name .. ", replay " .. turn, eager[turn], replays[turn]) end
   return eager[1], eager[2]
end

return M
