-- reset.lua - reset_parameters of modules whose parameters are shared out: the first weights of a
-- layer depend on its whole shapes, so for the time of the method its parameters are whole. Rank 0
-- of the group draws the values for all, and each rank keeps its part.

local torch = require "tlua"
local placement = require "tlua.distributed.placement"
local scopes = require "tlua.scope"

local M = {}

local flats = setmetatable({}, {__mode = "k"}) -- parameter -> its Flat
local known = setmetatable({}, {__mode = "k"}) -- the modules whose method was replaced
local lent = setmetatable({}, {__mode = "k"}) -- the parameters that are whole now

-- Takes over rank 0's values, also from the replicas.
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

-- Gives a parameter whole memory without values. Returns a function that gives it its part back,
-- with what this rank has of the whole if `keep` is true.
local function lend(p)
   local flat, place = flats[p], placement.get(p)
   flat:free()
   lent[p] = true
   local part, grad = p.data, p.grad
   p.grad = nil -- a gradient must always fit the data
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
   for _, p in ipairs(module:parameters()) do
      if flats[p] and not lent[p] then back[#back + 1] = lend(p) end
   end
   local results = table.pack(method(module, ...))
   restore(true)
   return table.unpack(results, 1, results.n)
end

--- Lets reset_parameters of a unit's modules have their parameters whole. All ranks call it.
---@param module nn.Module
---@param list distributed.fsdp.Flat[]  of the unit
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
