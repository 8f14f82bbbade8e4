-- reset.lua - reset_parameters of sharded modules. A layer's initial weights depend on its whole
-- shapes, so its parameters are gathered while the method runs. Rank 0 of the group draws the
-- values for all ranks, and each rank keeps its shard.

local torch = require "tlua"
local placement = require "tlua.distributed.placement"
local scopes = require "tlua.scope"

local M = {}

-- maps each parameter to its Flat, the row in which its elements are sharded
local flats = setmetatable({}, {__mode = "k"})
local known = setmetatable({}, {__mode = "k"}) -- modules whose reset_parameters is wrapped
local lent = setmetatable({}, {__mode = "k"}) -- the parameters that have whole memory now

-- Copies rank 0's values of a whole parameter to the other ranks, first to the ranks that have
-- replicas of the same shard.
local function agree(flat, whole)
   local owner = flat.owner
   local device = owner.compute_device or owner.device
   if torch.device(device).type == "meta" then device = whole.device end
   local sent = whole:to(device)
   for _, group in ipairs {owner.replicas or owner.group, owner.group} do
      group:run("broadcast", {outputs = sent})
   end
   return sent:to(whole.device)
end

-- Gives a parameter whole, uninitialized memory. Returns a function that makes the parameter this
-- rank's shard again, with the new values if `keep` is true.
local function lend(p)
   local flat, place = flats[p], placement.get(p)
   flat:free()
   lent[p] = true
   local part, grad = p.data, p.grad
   p.grad = nil -- a gradient must always have the shape of its parameter
   p.data = torch.empty(place.size, {dtype = p.dtype, device = p.device})
   return function(keep)
      local whole = p.data
      p.data = part
      p.grad, lent[p] = grad, nil
      if not keep or part.is_meta then return end
      local _ <close> = torch.no_grad()
      p:copy_(agree(flat, whole):reshape(-1):narrow(1, place.first + 1, place.count))
   end
end

local function reset(method, module, ...)
   local back = {}
   local function restore(keep)
      for i = 1, #back do
         local one = back[i]
         back[i] = function() end
         one(keep)
      end
   end
   local _ <close> = scopes.new(function() restore(false) end)
   for name, p in module:named_parameters() do
      local place = placement.get(p)
      if place and place.dim then placement.refuse_reset(name) end
      if flats[p] and not lent[p] then back[#back + 1] = lend(p) end
   end
   local results = table.pack(method(module, ...))
   restore(true)
   return table.unpack(results, 1, results.n)
end

--- Wraps the method reset_parameters of a sharded module and its submodules, so that the parameters
--- are gathered while the method runs. All ranks must call reset_parameters.
---@param module nn.Module
---@param list distributed.fsdp.Flat[]  the module's rows of parameters
function M.watch(module, list)
   for _, flat in ipairs(list) do
      for _, p in ipairs(flat.params) do flats[p] = flat end
   end
   for _, other in ipairs(module:modules()) do
      local method = other.reset_parameters
      if type(method) == "function" and not known[other] then
         known[other] = true
         rawset(other, "reset_parameters", function(self, ...) return reset(method, self, ...) end)
      end
   end
end

return M
